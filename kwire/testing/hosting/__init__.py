"""Server processes for tests: their ports, their folders, and how they start and end."""

"""One server process for a test: its port, its folder, and how it ends."""

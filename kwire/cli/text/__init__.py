"""The text that commands print and read: tables, JSON lines, suggestions for misspelt names."""

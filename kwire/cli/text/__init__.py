"""What commands print and read: tables, JSON lines, suggestions for a misspelt name."""

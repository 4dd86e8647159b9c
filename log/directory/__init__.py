"""Log directories and the small files in them.  The way in is `manager.LogManager`."""

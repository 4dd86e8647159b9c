"""Opening a log: checking and mending what is on disk.  The way in is `loader.open_log`."""

"""Finding records and giving their bytes out: the way in is `readable_log.ReadableLog`."""

"""Finding records and giving their bytes out: the ways in are `Log.read` and `lookups`."""

"""Reading logs: finds records and returns file regions; see `Log.read` and `lookups`."""

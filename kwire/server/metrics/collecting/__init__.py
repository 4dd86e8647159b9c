"""Reads the values of metrics out of a broker; each module has `collect`."""

"""Schemas of the three kinds: parsed, compared, and applied to the bytes of records."""

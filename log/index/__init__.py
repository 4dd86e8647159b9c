"""The indexes of a segment, and the sorted entries that they share."""

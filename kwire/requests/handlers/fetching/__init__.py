"""Answering Fetch and ShareFetch: one request over its partitions, parked where it must wait."""

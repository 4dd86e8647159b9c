"""Benchmarks in blocks: the file that keeps each block, and the sections that `make bench` has."""

"""A cluster of brokers for a test: `cluster` starts it and moves leaders, `faults` adds a rule to
several brokers at once, `traces` merges the traces of several brokers."""

from __future__ import annotations

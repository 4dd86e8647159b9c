"""Brokers in processes that are forked from one which has everything imported."""

from __future__ import annotations

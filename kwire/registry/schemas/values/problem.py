"""The errors of everything that decodes and encodes."""

from __future__ import annotations


class CannotDecode(Exception):
    """The bytes are not of the form or the schema.  The message says why."""


class CannotEncode(Exception):
    """The data are not of the schema.  The message says where, and why."""

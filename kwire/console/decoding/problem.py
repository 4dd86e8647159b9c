"""The error of everything that decodes."""

from __future__ import annotations


class CannotDecode(Exception):
    """The bytes are not of the form or the schema.  The message says why."""

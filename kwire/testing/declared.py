"""Applies a declaration of `kwire apply` to a test's broker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.declared_state.carrying import carry_out, planned
from kwire.cli.declared_state.files import load
from kwire.cli.declared_state.words import lines
from kwire.testing.topics import connected
from kwire.testing.values import Path as AnyPath

if TYPE_CHECKING:
    from kwire.cli.declared_state.files import Declaration

Declaring = AnyPath | Mapping[str, object]
"""A file, or its content."""


class NotApplied(Exception):
    """Some of the declaration could not be applied; the message has a line for each part."""


def apply(bootstrap: str, declaring: Declaring, *, prune: bool = False) -> list[str]:
    """Apply a declaration to the broker; returns the changes as `kwire apply` prints them.

    Raises DeclarationError if the declaration is wrong, NotApplied, ClientError.
    """
    declaration = _loaded(declaring)
    with connected(bootstrap) as cluster:
        plan = planned(cluster, declaration, prune=prune)
        problems = plan.conflicts
        if not problems:
            problems = carry_out(cluster, plan.changes, declaration.folder).failures
    if problems:
        raise NotApplied("\n".join(problems))
    return list(lines(plan.changes))


def _loaded(declaring: Declaring) -> Declaration:
    return load(declaring if isinstance(declaring, Mapping) else Path(declaring))

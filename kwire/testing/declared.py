"""What a broker is to have, for a test: as `kwire apply` takes it."""

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
"""A file, or what it would say."""


class NotApplied(Exception):
    """What is declared could not be made true; the message says what of it, a line each."""


def apply(bootstrap: str, declaring: Declaring, *, prune: bool = False) -> list[str]:
    """Have the broker there be so; what was changed, as `kwire apply` shows it.

    Raises DeclarationError where the declaration is wrong, NotApplied, ClientError.
    """
    declaration = _loaded(declaring)
    with connected(bootstrap) as cluster:
        made = planned(cluster, declaration, prune=prune)
        problems = made.conflicts
        if not problems:
            problems = carry_out(cluster, made.changes, declaration.folder).failures
    if problems:
        raise NotApplied("\n".join(problems))
    return list(lines(made.changes))


def _loaded(declaring: Declaring) -> Declaration:
    return load(declaring if isinstance(declaring, Mapping) else Path(declaring))

"""The tables that tests and code compare with: error codes, settings and features.

A release without changes leaves the files as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tools.upgrade.facts import RECORDS_MAY_CHANGE, Error, FeatureLevel, Setting

SETTINGS_FOLDER: Final = Path("tests/settings")
FEATURES_FOLDER: Final = Path("tests/cluster/metadata")
ERRORS: Final = Path("codecs/errors.py")
OF_BROKERS: Final = ("broker", "topic", "group")
"""The resources in the table of settings."""

_MEMBERS: Final = re.compile(r"(?<=\n)(?:    [A-Z][A-Z0-9_]* = -?\d+\n)+")
_RETRIABLE: Final = re.compile(r"(?<=_RETRIABLE = frozenset\(\n    \{\n)(?: +ErrorCode\.\w+,\n)+")


def settings_table(settings: Iterable[Setting]) -> str:
    """The settings of brokers, topics and groups as lines of tab-separated values."""
    lines = ["resource\tname\ttype\tdefault\timportance\tupdate\tinternal\n"]
    for each in sorted(settings):
        if each.resource in OF_BROKERS:
            internal = "internal" if each.internal else ""
            values = (*each[:4], each.importance, each.update, internal)
            lines.append("\t".join(values) + "\n")
    return "".join(lines)


def features_table(levels: Iterable[FeatureLevel]) -> str:
    """The levels of all features as lines of tab-separated values."""
    lines = ["feature\tlevel\tname\tproduction\tchanges_records\tneeds\tsince\tallows\n"]
    before: FeatureLevel | None = None
    for each in levels:
        is_next = before is not None and before.feature == each.feature
        known = before.abilities if before is not None and is_next else {}
        new = sorted(
            f"{name}={value}"
            for name, value in each.abilities.items()
            if known.get(name) != value and name != RECORDS_MAY_CHANGE
        )
        production = "yes" if each.production else "no"
        changes = "yes" if each.abilities.get(RECORDS_MAY_CHANGE) == "true" else "no"
        needs = "" if each.needs == "{}" else each.needs.strip("{}")
        values = (each.feature, str(each.level), each.name, production, changes, needs, each.since)
        lines.append("\t".join((*values, ", ".join(new))).rstrip("\t") + "\n")
        before = each
    return "".join(lines)


def with_errors(source: str, errors: Iterable[Error]) -> str:
    """The text of `codecs/errors.py` with these error codes.

    Raises ValueError if `source` has not one list of error codes and one of retriable ones.
    """
    ordered = sorted(errors)
    members = "".join(f"    {each.name} = {each.code}\n" for each in ordered)
    retriable = "".join(f"        ErrorCode.{each.name},\n" for each in ordered if each.retriable)
    for pattern, lines in ((_MEMBERS, members), (_RETRIABLE, retriable)):
        source, count = pattern.subn(lines, source)
        if count != 1:
            raise ValueError(f"the source has {count} lists of error codes where it must have one")
    return source


def write_tables(
    root: Path,
    version: str,
    errors: list[Error],
    settings: list[Setting],
    features: list[FeatureLevel],
) -> list[str]:
    """Write the tables of a release and remove those of another; return the changed files."""
    texts = {
        ERRORS: with_errors((root / ERRORS).read_text("utf-8"), errors),
        SETTINGS_FOLDER / f"kafka-{version}.tsv": settings_table(settings),
        FEATURES_FOLDER / f"features-{version}.tsv": features_table(features),
    }
    changed = []
    for pattern in (f"{SETTINGS_FOLDER}/kafka-*.tsv", f"{FEATURES_FOLDER}/features-*.tsv"):
        for path in root.glob(pattern):
            if path.relative_to(root) not in texts:
                path.unlink()
    for name, text in texts.items():
        path = root / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            changed.append(name.as_posix())
    return changed

"""One item of the work list, and the text of the whole list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tools.upgrade.serving import Status

SECTIONS: Final = (
    "API keys and versions",
    "Messages and fields",
    "Comments of schemas",
    "Error codes",
    "Settings of brokers, topics and groups",
    "Settings of clients",
    "Features",
)
APIS, FIELDS, COMMENTS, ERRORS, SETTINGS, CLIENT_SETTINGS, FEATURES = SECTIONS


class Item(NamedTuple):
    """One thing that is new or has changed."""

    section: str
    text: str
    status: Status
    note: str = ""
    """Why it has this status, if that is not plain."""
    details: Sequence[str] = ()
    """Further lines, such as the fields of a new message."""


def counts(items: Iterable[Item]) -> str:
    """How many items there are of each status, as a phrase."""
    found = Counter(item.status for item in items)
    parts = ", ".join(f"{found[status]} {status.value}" for status in Status)
    return f"{found.total()} items: {parts}"


def list_text(items: Sequence[Item], before: str, after: str) -> str:
    """The work list as Markdown."""
    lines = [f"# From Apache Kafka {before} to {after}", "", f"{counts(items)}."]
    for section in SECTIONS:
        within = [item for item in items if item.section == section]
        if not within:
            continue
        lines += ["", f"## {section}", "", f"{counts(within)}.", ""]
        for item in within:
            note = f" ({item.note})" if item.note else ""
            lines.append(f"- {item.status.value}: {item.text}{note}")
            lines += [f"  - {detail}" for detail in item.details]
    return "\n".join(lines) + "\n"

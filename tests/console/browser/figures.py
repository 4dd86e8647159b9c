"""The table of figures in docs/console.md, which `make console-figures` writes."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from statistics import median

PAGE = Path(__file__).resolve().parents[3] / "docs" / "console.md"
BEGIN, END = "<!-- figures: make console-figures -->", "<!-- end of figures -->"
ROW = re.compile(r"^\| (?P<name>[^|]+) \| (?P<value>[^|]+) \|$", re.MULTILINE)
IS_WRITING = "KWIRE_CONSOLE_FIGURES" in os.environ
"""Whether the figures are measured in full, and written; else small ones are only printed."""


def spread(values: list[float], unit: str) -> str:
    """The median with the smallest and the largest value."""
    return f"{median(values):,.0f} {unit} ({min(values):,.0f} to {max(values):,.0f})"


def keep(name: str, value: str) -> None:
    """Print a figure, and write it into its row of the table if the run is one of figures."""
    print(f"{name}: {value}")
    if not IS_WRITING:
        return
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    assert end, f"{PAGE} has no {BEGIN} … {END}"
    rows = {found["name"]: found["value"] for found in ROW.finditer(table)}
    rows.pop("what", None)
    rows.pop("---", None)
    rows[name] = value
    lines = ["| what | measured |", "| --- | --- |"]
    lines += [f"| {each} | {rows[each]} |" for each in rows]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")


def machine() -> str:
    """The processor and the number of cores."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = found[1].strip() if found else platform.processor()
    return f"{os.cpu_count()} cores of {name}"

"""Tables of figures on pages, which targets of the Makefile measure and write."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path
from statistics import median
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
ROW: Final = re.compile(r"^\| (?P<name>[^|]+) \| (?P<value>[^|]+) \|$", re.MULTILINE)
END: Final = "<!-- end of figures -->"


class FigureTable:
    """The table of a page."""

    def __init__(self, page: str, target: str, variable: str) -> None:
        """`target` of the Makefile sets the environment's `variable`, and writes the table."""
        self.page = ROOT / page
        self.begin = f"<!-- figures: make {target} -->"
        self.is_writing = variable in os.environ
        """Whether the figures are measured in full, and written; else small ones are printed."""

    def keep(self, name: str, value: str) -> None:
        """Print a figure, and write it into its row of the table if the run is one of figures."""
        print(f"{name}: {value}")
        if not self.is_writing:
            return
        text = self.page.read_text()
        before, _, rest = text.partition(self.begin)
        table, end, after = rest.partition(END)
        assert end, f"{self.page} has no {self.begin} … {END}"
        rows = {found["name"]: found["value"] for found in ROW.finditer(table)}
        rows.pop("what", None)
        rows.pop("---", None)
        rows[name] = value
        lines = ["| what | measured |", "| --- | --- |"]
        lines += [f"| {each} | {rows[each]} |" for each in rows]
        self.page.write_text(f"{before}{self.begin}\n" + "\n".join(lines) + f"\n{END}{after}")


def spread(values: list[float], unit: str, digits: int = 0) -> str:
    """The median with the smallest and the largest value."""
    low, middle, high = min(values), median(values), max(values)
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def machine() -> str:
    """The processor and the number of cores."""
    found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = found[1].strip() if found else platform.processor()
    return f"{os.cpu_count()} cores of {name}"

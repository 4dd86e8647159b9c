"""The report of the growth benchmark in Markdown, from its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire.conformance.bench.brokers import Kwire
from kwire.conformance.bench.growth.greedy import GREEDS, LIMIT_MS
from kwire.conformance.bench.growth.results import Results
from kwire.conformance.bench.growth.rows import SCALES
from kwire.conformance.bench.growth.turns import MeasuredGrowth, beyond_linear
from kwire.conformance.bench.report import number

GROWTH_MAX = 1.3
"""What a request may cost at full size, as a multiple of its cost at a tenth."""
PLOT = "growth.svg"
ROOM_FIGURES = {
    "memory": "memory, MB",
    "start": "start, s",
    "work": "start, s of processor time",
    "idle": "idle, ms of processor time a second",
}

HEAD = f"""# Growth

What kwire costs as topics, groups, connections and data grow, at a tenth and at full size. `make
bench-growth` measures it and writes this page; the numbers are in `growth.json` beside it.

![growth of costs, and waits beside greedy clients]({PLOT})
"""

COSTS = f"""## The cost of a request

Processor time of the broker for one request, in µs. Two brokers, one with a tenth, take turns; the
growth is the median of the rounds (with the smallest and the largest), at most {GROWTH_MAX:g} is
wanted.
"""

ROOM = f"""## Memory, start and the idle broker

A start lasts from the start of the process until everything is served. The growth is the value at
full size, divided by what it would be if each thing added as much as at a tenth; at most
{GROWTH_MAX:g} is wanted.
"""

GREEDY = f"""## Beside one greedy client

An honest client writes one record of 100 B after another, with a pause of 1 ms. Its waits in ms,
alone and beside one greedy client; a p99 of at most {LIMIT_MS:g} ms is wanted.
"""


def markdown(results: Results) -> str:
    """Return the whole report."""
    brokers = results.brokers()
    facts = [("what", "value"), *results.machine]
    parts = [HEAD, _table([list(fact) for fact in facts])]
    if results.note:
        parts.append(f"{results.note}\n")
    if results.scales:
        parts += [COSTS, _table(list(_cost_lines(results, brokers)))]
        parts += [ROOM, _table(list(_room_lines(results, brokers)))]
    if results.greedy:
        parts += [GREEDY, _table(list(_greedy_lines(results, brokers)))]
    return "\n".join(parts)


def titles(results: Results) -> dict[str, str]:
    """Return the titles of the measured scales by key, with their full sizes."""
    return {
        scale.key: scale.title.format(f"{results.sizes[scale.key]:,}")
        for scale in SCALES
        if scale.key in results.scales
    }


def _table(lines: Sequence[Sequence[str]]) -> str:
    """Return a table; the first line is its head, and numbers are aligned to the right."""
    head, *rows = lines
    rule = ["---"] * 2 + ["---:"] * (len(head) - 2)
    texts = (f"| {' | '.join(cells)} |" for cells in [head, rule, *rows])
    return "\n".join(texts) + "\n"


def _met(*, is_met: bool) -> str:
    return "yes" if is_met else "NO"


def _cost_lines(results: Results, brokers: Sequence[str]) -> Iterator[list[str]]:
    """Yield the head, and a line for each request of each scale."""
    columns = [f"{name}: {column}" for name in brokers for column in ("a tenth", "full", "growth")]
    yield ["what grows", "request", *columns, "met"]
    for key, title in titles(results).items():
        measured = results.scales[key]
        for request in next(iter(measured.values())).costs:
            cells = []
            for name in brokers:
                cells += _cost_cells(measured.get(name), request)
            ours = measured.get(Kwire.name)
            met = _met(is_met=ours.costs[request].growth <= GROWTH_MAX) if ours else ""
            yield [title, request, *cells, met]


def _cost_cells(growth: MeasuredGrowth | None, request: str) -> list[str]:
    """Return the cost at both sizes and its growth; empty cells without a measurement."""
    if growth is None:
        return [""] * 3
    cost = growth.costs[request]
    spread = f"{cost.growth:.2f} ({cost.least:.2f}-{cost.most:.2f})"
    return [number(cost.tenth), number(cost.full), spread]


def _room_lines(results: Results, brokers: Sequence[str]) -> Iterator[list[str]]:
    """Yield the head, and lines for memory, start and the idle broker of each scale."""
    shown = ("empty", "a tenth", "full", "growth")
    columns = [f"{name}: {column}" for name in brokers for column in shown]
    yield ["what grows", "figure", *columns, "met"]
    for key, title in titles(results).items():
        measured = results.scales[key]
        ours = measured.get(Kwire.name)
        for figure, label in ROOM_FIGURES.items():
            if not any(getattr(growth, figure) for growth in measured.values()):
                continue
            cells = []
            for name in brokers:
                values = getattr(measured[name], figure) if name in measured else []
                cells += _room_cells(values)
            values = getattr(ours, figure) if ours else []
            met = _met(is_met=beyond_linear(values) <= GROWTH_MAX) if len(values) == 3 else ""
            yield [title, label, *cells, met]


def _room_cells(values: Sequence[float]) -> list[str]:
    """Return the values at the three sizes and the growth; an idle broker has two values."""
    if not values:
        return [""] * 4
    if len(values) == 2:
        return ["", *map(number, values), ""]
    return [*map(number, values), f"{beyond_linear(values):.2f}"]


def _greedy_lines(results: Results, brokers: Sequence[str]) -> Iterator[list[str]]:
    """Yield the head, and a line for each greedy client."""
    shown = ("p99 alone", "p99", "longest")
    columns = [f"{name}: {column}" for name in brokers for column in shown]
    yield ["greedy client", "", *columns, "met"]
    for greed in GREEDS:
        measured = results.greedy.get(greed.key)
        if measured is None:
            continue
        cells = []
        for name in brokers:
            both = measured.get(name)
            values = [both.alone.p99, both.beside.p99, both.beside.longest] if both else []
            cells += [number(value) for value in values] or [""] * 3
        ours = measured.get(Kwire.name)
        met = _met(is_met=ours.beside.p99 <= LIMIT_MS) if ours else ""
        yield [greed.title, "", *cells, met]

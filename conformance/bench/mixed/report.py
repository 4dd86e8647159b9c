"""The report of the mixed load, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from kwire.conformance.bench import machine
from kwire.conformance.bench.mixed import stalls
from kwire.conformance.bench.mixed.clients import KINDS
from kwire.conformance.bench.mixed.driving import MixedBlock
from kwire.conformance.bench.report import number

SHOWN_MS = 20.0
"""Passes from this length on are stalls, whose causes are listed."""
FUNCTIONS = 3
"""How many of the innermost functions of a stall are shown."""

HEAD = """# Mixed load

{minutes} minutes of all kinds of clients on one broker, in blocks of {block}, and the times in
which its loop read no request. The percentiles are over the requests of all blocks. `make
bench-mixed` measures it and writes this page.

| machine | |
| --- | --- |
{facts}

## What the clients waited for

In ms.

| request | number | p50 | p99 | p99.9 | longest |
| --- | ---: | ---: | ---: | ---: | ---: |"""

STALLS = """
## Stalls of the loop

{count} passes of the loop took {shown} ms or more, without the time in which the loop was ready but
no processor was free; the longest pass of all waited {queue} ms for one. For each cause: the number
of passes, their total, and the longest with what it was made of, in ms.

| cause | passes | total | longest | processor | collector | innermost functions |
| --- | ---: | ---: | ---: | ---: | ---: | --- |"""


def markdown(
    measured: MixedBlock, minutes: float, block: float, blocks: Sequence[tuple[str, str]]
) -> str:
    """Return the report; `blocks` are facts about the blocks, whose length is in minutes."""
    passes = measured.passes
    long = [each for each in passes if each.own_ms >= SHOWN_MS]
    facts = [*machine.facts(), *blocks]
    table = "\n".join(f"| {name} | {value} |" for name, value in facts)
    lines = [HEAD.format(minutes=f"{minutes:g}", block=f"{block:g}", facts=table)]
    for kind in KINDS:
        if histogram := measured.waits.get(kind.name):
            each = histogram.percentiles()
            values = " | ".join(number(value) for value in each[1:])
            lines.append(f"| {kind.name} | {each.requests:,} | {values} |")
    lines.append(
        STALLS.format(
            count=len(long),
            shown=f"{SHOWN_MS:g}",
            queue=number(max((each.queue_ms for each in passes), default=0.0)),
        )
    )
    for cause in stalls.by_cause(long):
        most = cause.longest
        parts = (cause.total_ms, most.own_ms, most.cpu_ms, most.gc_ms)
        functions = most.stacks[0][0][:FUNCTIONS] if most.stacks else []
        lines.append(
            f"| {cause.name} | {cause.passes} | {' | '.join(map(number, parts))}"
            f" | {', '.join(functions)} |"
        )
    return "\n".join(lines).replace("<", "&lt;") + "\n"  # <frozen importlib>, <lambda>

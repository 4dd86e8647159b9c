"""`python -m kwire.conformance.bench.flames`: a flame graph and a table of each row of kwire."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import click

from kwire.conformance.bench import machine
from kwire.conformance.bench.brokers import BrokerFailed, Kwire, running
from kwire.conformance.bench.flames.shares import Share, of_stacks, table
from kwire.conformance.bench.frames import RequestFailed
from kwire.conformance.bench.measure import new_topic
from kwire.conformance.bench.rows import ROWS, Row
from kwire.conformance.bench.transactions import TRANSACTION_ROWS

ALL_ROWS = (*ROWS, *TRANSACTION_ROWS)
OPEN_FILES = 16_384
SAMPLES_PER_S = 500
WARM_S = 0.5
AROUND_S = 2.0
"""How much longer the load runs than the sampling, so that all samples are under load."""
PATIENCE_S = 60.0
HEAD = """# Where the time goes

Samples of the running broker, {rate} a second for {seconds:g} s in each row, without the threads
that py-spy takes for idle: `get_events` and `WorkerThread._work` are waits that it took for work.
`self` is the function's own part of the samples, `total` has what it calls in it. The samples of a
row of transactions also have the beginning of its turn, in which each producer gets its id. `make
flames` repeats it, and writes this page and a flame graph of each row into build/flames.
"""


class SamplingFailed(RuntimeError):
    """py-spy is missing or recorded nothing; the message says how to mend it."""


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--only",
    multiple=True,
    type=click.Choice([row.key for row in ALL_ROWS]),
    help="Sample only these rows.",
    show_default="all",
)
@click.option("--seconds", default=5, type=click.IntRange(1), help="How long a row is sampled.")
@click.option(
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("build", "flames"),
    help="Folder of the flame graphs and of flames.md.",
)
def main(only: tuple[str, ...], seconds: int, output: Path) -> None:
    """Sample kwire while it does the work of each row; needs the right to trace own children."""
    machine.allow_open_files(OPEN_FILES)
    output.mkdir(parents=True, exist_ok=True)
    parts = [HEAD.format(rate=SAMPLES_PER_S, seconds=seconds)]
    with tempfile.TemporaryDirectory(prefix="kwire-flames-") as folder:
        broker = Kwire(Path(folder) / "kwire")
        try:
            with running(broker):
                for row in ALL_ROWS:
                    if not only or row.key in only:
                        click.echo(row.title)
                        shares = sample(row, broker, seconds, output / f"{row.key}.svg")
                        parts.append(table(row.title, shares))
        except (BrokerFailed, RequestFailed, SamplingFailed) as failure:
            raise click.ClickException(str(failure)) from failure
    (output / "flames.md").write_text("\n".join(parts))
    click.echo(f"written: {output / 'flames.md'} and a flame graph of each row beside it")


def sample(row: Row, broker: Kwire, seconds: int, svg: Path) -> list[Share]:
    """Do the work of a row, and record the broker meanwhile; write its flame graph.

    The row is done twice, because py-spy writes one format in a run: stacks for the shares, then
    the graph.
    """
    topic = new_topic()
    row.prepare(broker, topic)
    try:
        row.sample(broker.address, topic, WARM_S)
        raw = svg.with_suffix(".txt")
        for form, file in (("raw", raw), ("flamegraph", svg)):
            _record_under_load(row, broker, topic, seconds, form, file)
        shares = of_stacks(raw.read_text())
        raw.unlink()
    finally:
        broker.delete_topic(topic)
    return shares


def _record_under_load(
    row: Row, broker: Kwire, topic: str, seconds: int, form: str, file: Path
) -> None:
    """Let py-spy write a file of this form while the row's work is done."""
    words = [_py_spy(), "record", f"--pid={broker.pid}", f"--format={form}", f"--output={file}"]
    words += [f"--duration={seconds}", f"--rate={SAMPLES_PER_S}"]
    recorder = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        row.sample(broker.address, topic, seconds + AROUND_S)
        said, _ = recorder.communicate(timeout=PATIENCE_S)
    finally:
        recorder.kill()
        recorder.wait()
    if recorder.returncode or not file.exists() or not file.stat().st_size:
        raise SamplingFailed(
            f"py-spy could not sample the broker: {said.decode(errors='replace').strip()}\n"
            "Sampling a process needs the right to trace it: run this as root, or on Linux with"
            f" kernel.yama.ptrace_scope=0 (the user id is {os.geteuid()})."
        )


def _py_spy() -> str:
    """Return the path of py-spy in this environment, or else on PATH."""
    beside = shutil.which("py-spy", path=sysconfig.get_path("scripts"))
    found = beside or shutil.which("py-spy")
    if found is None:
        raise SamplingFailed("py-spy is not installed: `make env-dev` installs it")
    return found


if __name__ == "__main__":
    main()

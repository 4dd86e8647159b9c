"""`python -m kwire.conformance.kraft [KINDS...]`: compares the metadata records of clusters.

The same steps are done with three brokers of Apache Kafka and with each mixture; the controllers of
all are Apache Kafka's.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from kwire.conformance.apache_kafka import ApacheKafkaError
from kwire.conformance.java import JavaMissing
from kwire.conformance.kraft.asking import AskFailed
from kwire.conformance.kraft.outcome import RunOutcome, differences
from kwire.conformance.kraft.stage import APACHE, IDS, KWIRE, RecordsStage, StepFailed
from kwire.conformance.kraft.steps import STEPS
from kwire.testing import BrokerStartError

REPORT = Path("artifacts", "metadata-records")
MIXTURES = ("kkk", "kka", "kaa", "aak")
REFERENCE = APACHE * len(IDS)
FAILURES = (ApacheKafkaError, BrokerStartError, JavaMissing, AskFailed, StepFailed)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("kinds", nargs=-1)
@click.option(
    "--steps", "wanted", help="Only steps whose name contains this, and the start of the brokers."
)
@click.option(
    "--reference",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with this file of an earlier run instead of running Apache Kafka.",
)
@click.option(
    "--report",
    type=click.Path(file_okay=False, path_type=Path),
    default=REPORT,
    show_default=True,
    help="Folder for the records of each run, and for the logs of a run that fails.",
)
def main(kinds: tuple[str, ...], wanted: str | None, reference: Path | None, report: Path) -> None:
    """Compare the metadata records that the same steps give with brokers of these KINDS.

    Each of KINDS has a letter for each broker: k for kwire, a for Apache Kafka.

    \b
      python -m kwire.conformance.kraft
      python -m kwire.conformance.kraft kkk --reference artifacts/metadata-records/aaa.json
      python -m kwire.conformance.kraft aaa
    """
    for each in kinds:
        if len(each) != len(IDS) or set(each) - {KWIRE, APACHE}:
            raise click.BadParameter(f"{each}: three letters of {KWIRE} and {APACHE}")
    report.mkdir(parents=True, exist_ok=True)
    try:
        if reference is not None:
            expected = RunOutcome.from_json(reference.read_text())
        else:
            expected = _run(REFERENCE, wanted, report)
        count = sum(
            _compare(_run(each, wanted, report), expected, report) for each in kinds or MIXTURES
        )
    except FAILURES as failure:
        raise click.ClickException(str(failure)) from failure
    raise SystemExit(1 if count else 0)


def _run(kinds: str, wanted: str | None, report: Path) -> RunOutcome:
    """Do the steps with brokers of these kinds, and keep the outcome in a file."""
    start, *others = STEPS
    steps = [start, *(step for step in others if wanted is None or wanted in step.name)]
    with tempfile.TemporaryDirectory(prefix="kwire-kraft-") as folder:
        stage = RecordsStage(Path(folder), kinds)
        try:
            outcome = stage.run(steps, lambda text: click.echo(text, err=True))
        except FAILURES:
            for name, text in stage.logs().items():
                (report / f"{kinds}-{name.replace(' ', '-')}.log").write_text(text)
            raise
        finally:
            stage.end()
    (report / f"{kinds}.json").write_text(outcome.to_json())
    return outcome


def _compare(ours: RunOutcome, theirs: RunOutcome, report: Path) -> int:
    """Print how two runs differ, and return in how many places."""
    found = [*differences(ours, theirs)]
    name = f"{ours.kinds}-beside-{theirs.kinds}"
    (report / f"{name}.txt").write_text("\n".join(found) + "\n")
    for each in found:
        click.echo(each)
    click.echo(
        f"{name}: {len(ours.steps)} steps, {ours.record_count} and {theirs.record_count} lines,"
        f" {len(found)} differences"
    )
    return len(found)


if __name__ == "__main__":
    main()

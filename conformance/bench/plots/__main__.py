"""`python -m kwire.conformance.bench.plots`: draws the plot of RESULTS.md from its tables."""

from __future__ import annotations

from pathlib import Path

import click

from kwire.conformance.bench import report
from kwire.conformance.bench.blocks.sections import HEADINGS
from kwire.conformance.bench.brokers import Apache
from kwire.conformance.bench.plots import ratios

RESULTS = Path(__file__).resolve().parents[1] / "RESULTS.md"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--results",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=RESULTS,
    show_default="RESULTS.md beside the code",
    help="The report; the plot is written beside it.",
)
def main(results: Path) -> None:
    """Draw the plot of a report of `make bench` again, without a measurement."""
    document = results.read_text()
    found = ratios.of_tables(document, HEADINGS)
    if not found:
        raise click.ClickException(
            f"{results} has no table with times better: run `make bench ARGS='--output {results}'`"
        )
    plot = results.with_name(f"{results.stem.lower()}.svg")
    ratios.draw(found, plot, Apache.name)
    results.write_text(report.show_plot(document, plot.name))
    click.echo(f"written: {plot}")


if __name__ == "__main__":
    main()

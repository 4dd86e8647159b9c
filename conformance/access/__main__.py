"""python -m kwire.conformance.access [--rewrite]: Apache Kafka's answers, beside those kept."""

from __future__ import annotations

import argparse
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path

from kwire.conformance.access.brokers import answers, apache
from kwire.conformance.access.kept import text_of

KEPT = Path("tests/conformance/data/access-4.3.1.txt")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rewrite", action="store_true", help=f"keep the answers in {KEPT}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory, apache(Path(directory)) as (plain, sasl):
        found = text_of(answers(plain, sasl))
    if options.rewrite:
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(found, encoding="utf-8")
        return 0
    kept = KEPT.read_text(encoding="utf-8")
    sys.stdout.writelines(
        unified_diff(kept.splitlines(True), found.splitlines(True), "kept", "now")
    )
    return int(found != kept)


if __name__ == "__main__":
    sys.exit(main())

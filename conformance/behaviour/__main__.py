"""`python -m kwire.conformance.behaviour SUBJECT ORACLE [--brisk] [NAME...]`: compares two brokers.

SUBJECT and ORACLE are HOST:PORT; a NAME runs the scenarios whose name contains it.
"""

from __future__ import annotations

import argparse
import sys

from kwire.conformance.behaviour.runner import ScenarioRunner
from kwire.conformance.behaviour.scenario import BRISK
from kwire.conformance.behaviour.scenarios import SCENARIOS
from kwire.conformance.wire.broker import RemoteBroker, address_of


def main() -> int:
    """Compare two brokers in the chosen scenarios; return 1 if one differs.

    Scenarios that wait for retention need `--brisk`.
    """
    parser = argparse.ArgumentParser(prog="python -m kwire.conformance.behaviour")
    parser.add_argument("subject", type=address_of, metavar="SUBJECT", help="HOST:PORT, tested")
    parser.add_argument("oracle", type=address_of, metavar="ORACLE", help="HOST:PORT, reference")
    settings = " ".join(f"{name}={value}" for name, value in BRISK.items())
    parser.add_argument("--brisk", action="store_true", help=f"both were started with {settings}")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_intermixed_args()
    chosen = [
        scenario
        for scenario in SCENARIOS
        if (given.brisk or not scenario.brisk)
        and (not given.names or any(name in scenario.name for name in given.names))
    ]
    runner = ScenarioRunner(RemoteBroker(given.subject), RemoteBroker(given.oracle))
    runner.prepare()
    differ = [verdict for verdict in runner.run(chosen) if not verdict.agrees]
    for verdict in differ:
        print(verdict)
    print(f"{len(chosen)} scenarios, {len(differ)} differ")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

"""`python -m kwire.conformance.hostile SUBJECT ORACLE [--seed N] [NAME...]`: compares two brokers.

SUBJECT and ORACLE are HOST:PORT of disposable brokers; a NAME runs the cases whose name contains
it.  The kinds of cases are batch/, delivery/ and mutation/.
"""

from __future__ import annotations

import argparse
import secrets
import sys

from kwire.conformance.hostile.cases import SEED, hostile_cases
from kwire.conformance.hostile.runner import HostileRunner
from kwire.conformance.wire.broker import RemoteBroker, address_of


def main() -> int:
    """Compare two brokers in the chosen cases; return 1 if one differs."""
    parser = argparse.ArgumentParser(prog="python -m kwire.conformance.hostile")
    parser.add_argument("subject", type=address_of, metavar="SUBJECT", help="HOST:PORT, tested")
    parser.add_argument("oracle", type=address_of, metavar="ORACLE", help="HOST:PORT, reference")
    parser.add_argument("--seed", default=SEED, help="seed of the mutations; `random` draws one")
    parser.add_argument("names", nargs="*", metavar="NAME")
    given = parser.parse_intermixed_args()
    seed = str(secrets.randbits(32)) if given.seed == "random" else given.seed
    runner = HostileRunner(RemoteBroker(given.subject), RemoteBroker(given.oracle))
    runner.prepare()
    chosen = [
        case
        for case in hostile_cases(runner.subject.served, seed)
        if not given.names or any(name in case.name for name in given.names)
    ]
    excused = 0
    differ = []
    for verdict in runner.run(chosen):
        excused += bool(verdict.excuses)
        if not verdict.agrees:
            differ.append(verdict)
            print(verdict, flush=True)
    print(
        f"seed {seed}: {len(chosen)} cases, {len(differ)} differ,"
        f" {excused} with a difference that is allowed"
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())

"""Check that messages become the stated bytes and back.

A line of FILE is one message: {"message": name, "version": number, "json": value, "hex": bytes},
other members are ignored. `json` must encode to `hex` and `hex` decode to `json`. Prints a line for
each message where that is not so, then `N of M`; the exit status is 1 unless N is M, and 2 when the
file cannot be read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from pathlib import Path

from kwire.codecs.json_form import (
    Json,
    JsonFormError,
    first_difference,
    from_json,
    normalized,
    shortened,
    to_json,
)
from kwire.codecs.messages import MODULES, message_class
from kwire.codecs.primitives import DecodeError, EncodeError


def fault_of(line: bytes) -> str | None:
    """Return what is wrong with a line, its message and version first; None when nothing is."""
    try:
        vector = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    if not isinstance(vector, dict):
        return f"not a JSON object: {shortened(vector)}"
    name, version = vector.get("message"), vector.get("version")
    if not isinstance(name, str) or not isinstance(version, int) or isinstance(version, bool):
        return 'it has no "message" (a name) and "version" (a number)'
    try:
        expected = bytes.fromhex(vector["hex"])
        form = vector["json"]
    except (KeyError, TypeError, ValueError) as error:
        return f'{name} version {version}: "hex" or "json" is missing or malformed: {error}'
    if name not in MODULES:
        return f"{name} version {version}: no such message"
    fault = _encoding_fault(name, version, form, expected)
    if fault is None:
        fault = _decoding_fault(name, version, form, expected)
    return None if fault is None else f"{name} version {version}: {fault}"


def _encoding_fault(name: str, version: int, form: Json, expected: bytes) -> str | None:
    """Return what is wrong if the JSON does not encode to `expected`, else None."""
    try:
        encoded = from_json(name, form, version).encode(version)
    except (JsonFormError, EncodeError, RecursionError) as error:
        return f"json does not encode: {error}"
    return _first_difference_in_bytes("json encodes to", expected, encoded)


def _decoding_fault(name: str, version: int, form: Json, expected: bytes) -> str | None:
    """Return what is wrong if `expected` does not decode to the JSON `form`, else None.

    The decoded message must also encode to the same bytes again.
    """
    try:
        message, end = message_class(name).read(expected, version)
    except DecodeError as error:
        return f"hex does not decode: {error}"
    if end != len(expected):
        return f"hex has {len(expected) - end} bytes after the message"
    difference = first_difference(normalized(name, form, version), to_json(message, version))
    if difference is not None:
        return f"hex decodes to other json: {difference}"
    return _first_difference_in_bytes("hex encodes again to", expected, message.encode(version))


def _first_difference_in_bytes(what: str, expected: bytes, found: bytes) -> str | None:
    """Return a text about the first byte that differs, or None if all are equal."""
    if expected == found:
        return None
    pairs = enumerate(zip(expected, found, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), min(len(expected), len(found)))
    found_there = found[at : at + 8].hex() or "the end"
    expected_there = expected[at : at + 8].hex() or "the end"
    return (
        f"{what} {len(found)} bytes, expected {len(expected)}: "
        f"at byte {at} {found_there}, expected {expected_there}"
    )


def check_file(path: Path) -> tuple[list[str], int]:
    """Return what is wrong with the lines of a file (`.gz` is read through gzip), and how many
    there are. Empty lines do not count.
    """
    faults: list[str] = []
    count = 0
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            count += 1
            fault = fault_of(line)
            if fault is not None:
                faults.append(f"line {number}: {fault}")
    return faults, count


def main(arguments: list[str] | None = None) -> int:
    """Check the messages of the file; return 0 if all hold, 1 at faults, 2 if it cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m kwire.codecs", description=__doc__)
    parser.add_argument("file", type=Path, metavar="FILE")
    path = parser.parse_args(arguments).file
    try:
        faults, count = check_file(path)
    except (OSError, EOFError) as error:
        print(f"{path} cannot be read: {error}", file=sys.stderr)
        return 2
    for fault in faults:
        print(fault)
    print(f"{count - len(faults)} of {count}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes the modules of all messages; with `--check`, lists those that differ (exit status 1)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import kwire.codecs
from kwire.codecs.generator.module import BANNER, module_text
from kwire.codecs.generator.registry import api_keys_text, registry_text
from kwire.codecs.schema_notation import load, schema_names

ROOT = Path(kwire.codecs.__file__).parent


def generated_files() -> dict[Path, str]:
    """Return the text of every generated file by its path below `codecs/`."""
    files = {name: load(name) for name in schema_names()}
    texts = {Path("messages", f"{name}.py"): module_text(name, files[name]) for name in files}
    texts[Path("messages/__init__.py")] = registry_text(files)
    title = '"""Records of the internal topics: keys and values, a module for each record type."""'
    texts[Path("messages/coordinator/__init__.py")] = (
        f"{BANNER.format('codecs/schema/coordinator')}\n{title}\n"
    )
    texts[Path("api_keys.py")] = api_keys_text(files)
    return texts


def differing_files() -> list[str]:
    """Return the faults of the files on disk, one sentence each."""
    texts = generated_files()
    faults = []
    for path, text in sorted(texts.items()):
        on_disk = ROOT / path
        if not on_disk.exists():
            faults.append(f"{path} is missing")
        elif on_disk.read_text("utf-8") != text:
            faults.append(f"{path} is not what the generator writes")
    found = {path.relative_to(ROOT) for path in (ROOT / "messages").rglob("*.py")}
    return faults + [f"{path} has no schema" for path in sorted(found - texts.keys())]


def main() -> int:
    """Write the generated files that differ from those on disk; return the exit status.

    With `--check`, write nothing, print the files that differ, and return 1 if there are any.
    """
    parser = argparse.ArgumentParser(prog="python -m kwire.codecs.generator", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args().check:
        faults = differing_files()
        for fault in faults:
            print(fault)
        return 1 if faults else 0
    for path, text in generated_files().items():
        on_disk = ROOT / path
        on_disk.parent.mkdir(exist_ok=True)
        if not on_disk.exists() or on_disk.read_text("utf-8") != text:
            on_disk.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

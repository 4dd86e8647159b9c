"""CRC-32C, the checksum of record batches, by the library of that name and nothing else of it.

`import crc32c` also loads a command line and asks the installer for a version: 37 modules with
email and argparse among them, 2 MB and a tenth of a broker's start.  So its compiled part is loaded
alone, where it is found.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from kwire.codecs.primitives import Buffer

_COMPILED = "_crc32c"


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    found = package and PathFinder.find_spec(_COMPILED, package.submodule_search_locations)
    if found is None or found.loader is None:
        from crc32c import crc32c as of_the_package

        return of_the_package
    module = module_from_spec(found)
    found.loader.exec_module(module)
    checksum: Callable[[Buffer], int] = module.crc32c
    return checksum


crc32c = _load()

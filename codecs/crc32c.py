"""CRC-32C, the checksum of record batches, from the compiled part of the library `crc32c`.

`import crc32c` also loads a command line and the package's metadata: 37 modules (among them email
and argparse), 2 MB, and a tenth of a broker's start.  So this module loads the compiled part alone,
if it finds it.
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
        from crc32c import crc32c as package_crc32c

        return package_crc32c
    module = module_from_spec(found)
    found.loader.exec_module(module)
    checksum: Callable[[Buffer], int] = module.crc32c
    return checksum


crc32c = _load()

"""CRC-32C, the checksum of record batches, by the compiled module of the library `crc32c`.

`import crc32c` also loads a command line and the package's metadata: 37 modules (such as email and
argparse), 2 MB, and a tenth of a broker's start time.  So this module loads only the compiled
module, if it exists.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Protocol

from kwire.codecs.primitives import Buffer

_COMPILED = "_crc32c"


class Checksum(Protocol):
    """The CRC-32C of `data`, which continues that of the bytes before it."""

    def __call__(self, data: Buffer, value: int = 0, /) -> int: ...


def _load() -> Checksum:
    """Return the checksum function of the compiled module, without importing its package.

    If the compiled module is not found, the package itself is imported.
    """
    package = PathFinder.find_spec("crc32c")
    spec = package and PathFinder.find_spec(_COMPILED, package.submodule_search_locations)
    if spec is None or spec.loader is None:
        from crc32c import crc32c as package_crc32c

        return package_crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    checksum: Checksum = module.crc32c
    return checksum


crc32c = _load()

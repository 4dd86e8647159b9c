"""CRC-32C by the compiled module of the library, without its package."""

from __future__ import annotations

import crc32c as package
import pytest

from kwire.codecs import crc32c


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_crc32c_equals_that_of_the_library(kind: type) -> None:
    data = b"123456789"
    assert crc32c.crc32c(kind(data)) == package.crc32c(data) == 0xE3069283  # RFC 3720's example


def test_package_without_compiled_module_is_used_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(crc32c, "_COMPILED", "_not_there")
    assert crc32c._load() is package.crc32c

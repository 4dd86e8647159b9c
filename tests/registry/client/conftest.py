"""A registry for tests of its clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.registry.double import RegistryDouble, registry_double


@pytest.fixture
def double() -> Iterator[RegistryDouble]:
    with registry_double() as found:
        yield found

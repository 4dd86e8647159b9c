"""The quota on new connections per IP address (KIP-612)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.cluster.metadata.entities import IP, entity_key, entity_of
from kwire.cluster.metadata.image import ClusterImage
from kwire.security.quotas.clients import RATES_MAX
from kwire.security.quotas.kinds import CONNECTION, values_of
from kwire.security.quotas.rates import Rate, Windows, throttle_ms

_ONE = 1.0


class AddressRates:
    """The rate of new connections of each address that has a quota."""

    def __init__(self, windows: Windows, now_ms: Callable[[], float]) -> None:
        """Begin without quotas; `now_ms` is a monotonic clock."""
        self._windows = windows
        self._now_ms = now_ms
        self._set: dict[str, float] = {}
        self._resolved: dict[str, str] = {}
        self._default: float | None = None
        self._rates: dict[str, Rate] = {}
        self.unresolved = False
        """Whether quotas have changed since their host names were resolved."""

    def follow(self, image: ClusterImage) -> None:
        """Apply the quotas of `image`; measured rates stay."""
        self._default = values_of(image.configs_of(*entity_key({IP: None}))).get(CONNECTION)
        self._set = {}
        self.unresolved = True
        for key, configs in image.configs.items():
            entity = entity_of(key)
            name = None if entity is None else entity.get(IP)
            value = values_of(configs).get(CONNECTION)
            if name is not None and value is not None:
                self._set[name] = value

    @property
    def names(self) -> frozenset[str]:
        """The addresses and host names that have a quota."""
        return frozenset(self._set)

    def resolve(self, addresses: Mapping[str, str]) -> None:
        """Set which address each of `names` has; `addresses` maps addresses to names."""
        self._resolved = dict(addresses)
        self.unresolved = False

    def throttle_ms(self, address: str) -> int:
        """Count a new connection; return 0 if it may stay.

        Else return for how many ms to delay it before closing it, at most one window.  A closed
        connection does not count.
        """
        bound = self._set.get(self._resolved.get(address, address), self._default)
        if bound is None:
            return 0
        rate = self._rates.pop(address, None) or Rate(self._windows)
        self._rates[address] = rate
        if len(self._rates) > RATES_MAX:
            del self._rates[next(iter(self._rates))]
        now_ms = self._now_ms()
        rate.record(_ONE, now_ms)
        delay_ms = throttle_ms(rate, bound, now_ms)
        if delay_ms:
            rate.record(-_ONE, now_ms)
        return min(delay_ms, self._windows.size_ms)

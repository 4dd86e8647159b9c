"""All client quotas that one broker enforces, updated with the metadata image."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from kwire.cluster.metadata.entities import ENTITY_RESOURCE
from kwire.cluster.metadata.image import ClusterImage
from kwire.security.quotas.addresses import AddressRates
from kwire.security.quotas.clients import ClientRates, UsedQuota
from kwire.security.quotas.kinds import FETCH, PRODUCE, QUOTAS, REQUEST
from kwire.security.quotas.mutations import MutationBudgets
from kwire.security.quotas.rates import Windows

if TYPE_CHECKING:
    from collections.abc import Collection

    from kwire.cluster.metadata.image import ResourceKey

NANOS_TO_PERCENT = 100 / 1e9
"""Nanoseconds to percent of a second: a request quota is a share of one thread's time (KIP-124)."""


class ClientQuotas:
    """Measures the clients of a broker and computes their throttle times in ms.

    `user` is a principal's name without its type.  `now_ms` is a clock that does not go back.
    """

    def __init__(
        self, windows: Windows, mutation_windows: Windows, now_ms: Callable[[], float]
    ) -> None:
        """Begin without quotas; `mutation_windows` are those of `controller_mutation_rate`."""
        self._windows = windows
        self._now_ms = now_ms
        self._produce = ClientRates(PRODUCE, windows)
        self._fetch = ClientRates(FETCH, windows)
        self._request = ClientRates(REQUEST, windows)
        self.mutations = MutationBudgets(mutation_windows, now_ms)
        self.addresses = AddressRates(windows, now_ms)

    def follow(self, image: ClusterImage) -> None:
        for rates in (self._produce, self._fetch, self._request):
            rates.follow(image)
        self.mutations.follow(image)
        self.addresses.follow(image)

    def measured(self) -> Iterator[tuple[str, UsedQuota]]:
        """Yield the use of each quota, with Kafka's name of what it limits."""
        now_ms = self._now_ms()
        for resource, rates in (
            ("Produce", self._produce),
            ("Fetch", self._fetch),
            ("Request", self._request),
        ):
            for used in rates.measured(now_ms):
                yield resource, used

    def concern(self, user: str, client_id: str, *, produces: bool) -> bool:
        """Whether a request of the client must be counted; `produces` says if it is a Produce."""
        if self._request.bound(user, client_id) is not None:
            return True
        return produces and self._produce.bound(user, client_id) is not None

    def produced(self, user: str, client_id: str, size_bytes: int) -> int:
        """Count the bytes of a Produce request; return the throttle time in ms."""
        return self._produce.record(user, client_id, size_bytes, self._now_ms())

    def requested(self, user: str, client_id: str, nanos: float) -> int:
        """Count the loop time of a request; return the throttle time in ms.

        It is at most one window (KIP-124).
        """
        percent = nanos * NANOS_TO_PERCENT
        throttle_ms = self._request.record(user, client_id, percent, self._now_ms())
        return min(throttle_ms, self._windows.size_ms)

    def most_fetched(self, user: str, client_id: str) -> int | None:
        """The number of bytes that one Fetch response may have, or None without a quota."""
        most = self._fetch.most_in_window(user, client_id)
        # The size limit of a Fetch is an int32.
        return None if most is None else int(min(most, 2**31 - 1))

    def fetched(self, user: str, client_id: str, size_bytes: int) -> int:
        """Count a Fetch response of `size_bytes`; return the throttle time in ms.

        A throttled client gets a response without records, so its bytes are not counted (KIP-219).
        """
        now_ms = self._now_ms()
        throttle_ms = self._fetch.record(user, client_id, size_bytes, now_ms)
        if throttle_ms:
            self._fetch.take_back(user, client_id, size_bytes, now_ms)
        return throttle_ms


class QuotaSettings(Protocol):
    """The settings of quota windows: see kwire.settings."""

    @property
    def quota_window_num(self) -> int: ...
    @property
    def quota_window_size_seconds(self) -> int: ...
    @property
    def controller_quota_window_num(self) -> int: ...
    @property
    def controller_quota_window_size_seconds(self) -> int: ...


def begun(
    config: QuotaSettings,
    image: ClusterImage,
    changed: Collection[ResourceKey],
    now_ms: Callable[[], float],
) -> ClientQuotas | None:
    """Return the quotas to enforce from now on, or None if no entity in `changed` has a quota.

    `now_ms` is a clock that does not jump.
    """
    if not any_set(image, changed):
        return None
    quotas = ClientQuotas(
        Windows(config.quota_window_num, config.quota_window_size_seconds * 1000),
        Windows(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        ),
        now_ms,
    )
    quotas.follow(image)
    return quotas


def any_set(image: ClusterImage, among: Collection[ResourceKey]) -> bool:
    """Whether one of the resources is an entity with a quota."""
    return any(
        key[0] == ENTITY_RESOURCE and not QUOTAS.isdisjoint(image.configs_of(*key)) for key in among
    )

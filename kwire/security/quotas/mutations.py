"""The quota on partitions that a client creates and deletes, per second (KIP-599)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.security.quotas.clients import RATES_MAX, Who, bound_of
from kwire.security.quotas.kinds import MUTATION
from kwire.security.quotas.rates import TokenBucket, Windows

if TYPE_CHECKING:
    from kwire.security.quotas.enforced import ClientQuotas


class QuotaClient(Protocol):
    """The sender of a request: see kwire.requests.context."""

    client_id: str | None

    @property
    def user(self) -> str: ...


class MutationBudgets:
    """The token buckets of the clients that have this quota; a partition costs one token."""

    def __init__(self, windows: Windows, now_ms: Callable[[], float]) -> None:
        self._windows = windows
        self._now_ms = now_ms
        self._image: ClusterImage | None = None
        self._buckets: dict[Who, TokenBucket] = {}

    def follow(self, image: ClusterImage) -> None:
        self._image = image

    def budget(self, user: str, client_id: str, *, strict: bool) -> MutationBudget | None:
        """Return the budget of one request, or None if its client has no quota.

        With `strict` a client whose bucket is overdrawn is refused: its version of the request
        understands THROTTLING_QUOTA_EXCEEDED.  Otherwise it only gets a throttle time.
        """
        assert self._image is not None
        bound = bound_of(self._image, MUTATION, user, client_id)
        if bound is None:
            return None
        now_ms = self._now_ms()
        bucket = self._buckets.pop(bound.shared_by, None)
        if bucket is None:
            bucket = TokenBucket(self._windows, bound.value, now_ms)
        else:
            bucket.change(bound.value, now_ms)
        self._buckets[bound.shared_by] = bucket
        if len(self._buckets) > RATES_MAX:
            del self._buckets[next(iter(self._buckets))]
        return MutationBudget(bucket, self._now_ms, strict)


class MutationBudget:
    """Charges one request to its client's token bucket."""

    __slots__ = ("_bucket", "_now_ms", "_strict", "_throttle_ms")

    def __init__(self, bucket: TokenBucket, now_ms: Callable[[], float], strict: bool) -> None:
        self._bucket = bucket
        self._now_ms = now_ms
        self._strict = strict
        self._throttle_ms = 0

    @property
    def throttle_ms(self) -> int:
        """The throttle time of this request in ms."""
        return self._throttle_ms

    def spend(self, partitions: int) -> None:
        """Charge for `partitions`.  If strict, raises Refusal while the bucket is overdrawn."""
        now_ms = self._now_ms()
        if self._strict:
            self._throttle_ms = self._bucket.throttle_ms(now_ms)
            if self._throttle_ms:
                raise Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
            self._bucket.take(partitions, now_ms)
        else:
            self._bucket.take(partitions, now_ms)
            self._throttle_ms = self._bucket.throttle_ms(now_ms)


def budget_of(
    quotas: ClientQuotas | None, context: QuotaClient, *, strict: bool
) -> MutationBudget | None:
    """Return the budget of a request, or None without a quota.  `strict`: see
    MutationBudgets.budget.
    """
    if quotas is None:
        return None
    return quotas.mutations.budget(context.user, context.client_id or "", strict=strict)


def owed_ms(budget: MutationBudget | None) -> int:
    """The throttle time of a request in ms; 0 without a budget."""
    return 0 if budget is None else budget.throttle_ms

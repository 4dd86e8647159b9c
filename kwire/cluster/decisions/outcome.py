"""The outcome of each decision that one request needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from kwire.cluster.metadata.changes import Change
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal

C = TypeVar("C", bound=Change)
T = TypeVar("T")


class DecisionOutcome(Generic[C]):
    """A `Decision` that keeps its last result: `change` or `refusal`.

    `decide` raises Refusal if the request cannot be done, and returns None if nothing needs to
    change.
    """

    __slots__ = ("_decide", "change", "charge", "image", "refusal")

    def __init__(self, decide: Callable[[ClusterImage], C | None]) -> None:
        """`decide` is the decision; it may raise Refusal."""
        self._decide = decide
        self.change: C | None = None
        self.refusal: Refusal | None = None
        self.image: ClusterImage | None = None
        """The image for which it was last decided."""
        self.charge: Callable[[C], None] | None = None
        """Charges the client's quota for the change, once; raises Refusal if it is exceeded."""

    def __call__(self, image: ClusterImage) -> C | None:
        """Decides for `image`, and keeps the change or the refusal.

        Returns None if nothing changes or the decision refuses.  A commit that conflicts repeats
        the call with a newer image.
        """
        self.change = self.refusal = None
        self.image = image
        try:
            change = self._decide(image)
            if change is not None and self.charge is not None:
                self.charge(change)
                # A repeated decision is not charged again.
                self.charge = None
        except Refusal as refusal:
            self.refusal = refusal
            return None
        self.change = change
        return change


def named_once(
    wanted: Iterable[T], name_of: Callable[[T], str]
) -> tuple[Sequence[T], Sequence[str]]:
    """The entries whose name is unique, and the names that occur more than once."""
    given = list(wanted)
    times = Counter(name_of(each) for each in given)
    once = [each for each in given if times[name_of(each)] == 1]
    return once, [name for name in times if times[name] > 1]

"""Changes of quotas by AlterClientQuotas; each entity is decided separately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kwire.cluster.decisions.outcome import DecisionOutcome
from kwire.cluster.metadata.changes import SetConfigs
from kwire.cluster.metadata.entities import Entity, entity_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.security.quotas.kinds import check_entity, text_of


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """New values of the quotas of one entity; None removes a quota."""

    entity: Entity
    values: Sequence[tuple[str, float | None]]
    refusal: Refusal | None = None
    """Why the entity's IP address is invalid."""


def quota_outcomes(changes: Iterable[QuotaChange]) -> list[DecisionOutcome[SetConfigs]]:
    """A decision for each change."""
    return [DecisionOutcome(_QuotaDecision(change)) for change in changes]


class _QuotaDecision:
    """A decision: the configs of an entity with its new quotas.  Raises Refusal."""

    __slots__ = ("_change",)

    def __init__(self, change: QuotaChange) -> None:
        self._change = change

    def __call__(self, image: ClusterImage) -> SetConfigs | None:
        """Return the change of one entity's quotas; None if they stay the same.

        Raises Refusal.
        """
        entity = self._change.entity
        check_entity(entity)
        key = entity_key(entity)
        before = image.configs_of(*key)
        if self._change.refusal is not None:
            raise self._change.refusal
        after = dict(before)
        for quota, value in self._change.values:
            if value is None:
                after.pop(quota, None)
            else:
                after[quota] = text_of(entity, quota, value)
        return SetConfigs(*key, before, after) if after != before else None


def repeated(entity: Entity) -> Refusal:
    """The refusal of an entity that occurs twice in a request, or with one quota twice."""
    entries = ", ".join(
        f"{kind}={'null' if name is None else name}" for kind, name in sorted(entity.items())
    )
    return Refusal(
        ErrorCode.INVALID_REQUEST,
        f"Ignoring duplicate entity ClientQuotaEntity(entries={{{entries}}})",
    )

"""The filter of DescribeClientQuotas, with the rules of Kafka's ClientQuotasImage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kwire.cluster.metadata.entities import CLIENT_ID, IP, USER, Entity, entity_of
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.metadata.refusal import Refusal
from kwire.codecs.errors import ErrorCode
from kwire.security.quotas.kinds import invalid, values_of

EXACT: Final = 0
DEFAULT: Final = 1
ANY: Final = 2

_WITH_A_NAME = "Request specified {}, but also specified a match string."


class QuotaFilter:
    """A filter of quota entities; `strict` excludes entities with parts that it does not name."""

    def __init__(self, components: Iterable[tuple[str, int, str | None]], strict: bool) -> None:
        """Each component is a type of entity, a match type, and with EXACT a name.

        Raises Refusal.
        """
        self._strict = strict
        self._exact: dict[str, str | None] = {}
        self._any: set[str] = set()
        for kind, match_type, name in components:
            self._add(kind, match_type, name)
        types = self._exact.keys() | self._any
        if IP in types and len(types) > 1:
            raise invalid(
                "Invalid entity filter component combination. IP filter component should not be"
                " used with user or clientId filter component."
            )

    def _add(self, kind: str, match_type: int, name: str | None) -> None:
        """Add one component of the filter; raises Refusal with Kafka's message if it is invalid."""
        if not kind:
            raise invalid("Invalid empty entity type.")
        if kind in self._exact or kind in self._any:
            raise invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in {USER, CLIENT_ID, IP}:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        if match_type == EXACT:
            if name is None:
                raise invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            self._exact[kind] = name
        elif match_type == DEFAULT:
            if name is not None:
                raise invalid(_WITH_A_NAME.format("MATCH_TYPE_DEFAULT"))
            self._exact[kind] = None
        elif match_type == ANY:
            if name is not None:
                raise invalid(_WITH_A_NAME.format("MATCH_TYPE_SPECIFIED"))
            self._any.add(kind)
        else:
            raise invalid(f"Unknown match type {match_type}")

    def matches(self, entity: Entity) -> bool:
        """Return whether the entity has the wanted parts; with `strict`, no others."""
        if self._strict and len(entity) != len(self._exact) + len(self._any):
            return False
        if not self._any <= entity.keys():
            return False
        return all(kind in entity and entity[kind] == name for kind, name in self._exact.items())


def found(
    image: ClusterImage, quota_filter: QuotaFilter
) -> Iterator[tuple[Entity, dict[str, float]]]:
    """Yield the entities with quotas that the filter matches, with all their quotas."""
    for key, configs in image.configs.items():
        entity = entity_of(key)
        if entity is None or not quota_filter.matches(entity):
            continue
        values = values_of(configs)
        if values:
            yield entity, values

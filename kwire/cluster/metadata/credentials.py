"""SCRAM credentials of users, which the metadata keeps among the configs of each user.

A config is `SCRAM-SHA-256` -> `salt=…,stored_key=…,server_key=…,iterations=…`, as Apache Kafka 3.9
stores it in ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kwire.cluster.metadata.entities import ENTITY_RESOURCE, USER, entity_key, entity_of
from kwire.cluster.metadata.image import ClusterImage, ResourceKey

MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""The SCRAM mechanisms, by their numbers in Kafka's requests and records."""
MECHANISM_NUMBERS: Final = {mechanism: number for number, mechanism in MECHANISMS.items()}


def user_key(user: str) -> ResourceKey:
    """The resource key of a user's configs."""
    return entity_key({USER: user})


def credentials_of(image: ClusterImage, user: str) -> dict[str, str]:
    """A user's credentials, by mechanism."""
    configs = image.configs_of(*user_key(user))
    return {each: configs[each] for each in MECHANISMS.values() if each in configs}


def users_with_credentials(image: ClusterImage) -> Iterator[str]:
    """All users that can log in by SCRAM."""
    for key, configs in image.configs.items():
        if key[0] != ENTITY_RESOURCE or configs.keys().isdisjoint(MECHANISMS.values()):
            continue
        entity = entity_of(key)
        if entity is not None and entity.keys() == {USER}:
            user = entity[USER]
            if user is not None:
                yield user

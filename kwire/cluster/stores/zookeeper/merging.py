"""Merges what was read from ZooKeeper into an image; no I/O.

Each function returns the next image and the changes that lead to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kwire.cluster.metadata.acls import Acls
from kwire.cluster.metadata.changes import (
    Change,
    ChangeAcls,
    CreateTopic,
    DeleteTopic,
    SetConfigs,
    SetToken,
)
from kwire.cluster.metadata.image import ClusterImage, ResourceKey, TopicImage
from kwire.cluster.metadata.tokens import Tokens
from kwire.cluster.stores.contract import Place


def with_topics(
    image: ClusterImage, read: Mapping[str, TopicImage | None]
) -> tuple[ClusterImage, list[Change]]:
    """Return the image with the topics as they were read (None: deleted), and the changes."""
    changes: list[Change] = []
    present = []
    for name, topic in read.items():
        known = image.topics.get(name)
        if topic is None:
            if known is not None:
                changes.append(DeleteTopic(name, known.id))
            continue
        if known is not None and known.id != topic.id:
            changes.append(DeleteTopic(name, known.id))
        elif known is not None:
            topic = _with_offline(topic, known)
        if topic != known:
            changes.append(CreateTopic(topic))
            present.append(topic)
    image = image.without_topics(
        [change.topic for change in changes if isinstance(change, DeleteTopic)]
    )
    return image.with_topics(present), changes


def with_configs(
    image: ClusterImage, read: Mapping[ResourceKey, Mapping[str, str]]
) -> tuple[ClusterImage, list[Change]]:
    """Return the image with the configs as they were read, and the changes."""
    changes: list[Change] = []
    for (resource, name), configs in read.items():
        before = image.configs_of(resource, name)
        if before != configs:
            changes.append(SetConfigs(resource, name, before, configs))
            image = image.with_configs(resource, name, configs)
    return image, changes


def with_acls(image: ClusterImage, read: Acls) -> tuple[ClusterImage, list[Change]]:
    """Return the image with the access control lists as they were read, and the changes."""
    changes: list[Change] = []
    for pattern, entries in read.items():
        before = image.acls_on(pattern)
        if before != entries:
            added, removed = sorted(entries - before), sorted(before - entries)
            changes.append(ChangeAcls(pattern, (*added,), (*removed,)))
            image = image.with_acls(pattern, entries)
    return image, changes


def with_tokens(image: ClusterImage, read: Tokens) -> tuple[ClusterImage, list[Change]]:
    """Return the image with the tokens as they were read (None: deleted), and the changes."""
    changes: list[Change] = []
    for token_id, token in read.items():
        before = image.tokens.get(token_id)
        if before != token:
            changes.append(SetToken(token_id, before, token))
            image = image.with_token(token_id, token)
    return image, changes


def _with_offline(topic: TopicImage, known: TopicImage) -> TopicImage:
    """Return `topic` with the offline replicas of `known`, the topic as it was before.

    They are in no znode; only the controller knows them.
    """
    kept = [
        replace(state, offline=before.offline)
        for state, before in zip(topic.partitions, known.partitions, strict=False)
    ]
    return replace(topic, partitions=(*kept, *topic.partitions[len(kept) :]))


def is_settled(image: ClusterImage, place: Place, replicas: tuple[int, ...]) -> bool:
    """Return whether the controller need not act on a requested reassignment.

    It is in progress or done, or its partition does not exist.  One in progress is in the topic's
    znode, from which a next controller continues it.
    """
    name, index = place
    topic = image.topics.get(name)
    if topic is None or name in image.deleting or index >= len(topic.partitions):
        return True
    state = topic.partitions[index]
    return bool(state.adding or state.removing) or state.replicas == replicas

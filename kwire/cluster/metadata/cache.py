"""A broker's current metadata, and callbacks that follow its changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kwire.cluster.metadata.delta import ClusterDelta
from kwire.cluster.metadata.image import ClusterImage

MetadataFollower: TypeAlias = Callable[[ClusterImage, ClusterImage, ClusterDelta], None]
"""Called with the image before, the image now, and the delta between them."""


class MetadataCache:
    """The current image of the cluster.

    `topic_names` maps topic ids to names, as in `image`.  It is a plain dict because Fetch and
    Produce look topics up in it for every request.
    """

    def __init__(self, cluster_id: str) -> None:
        self.image = ClusterImage(cluster_id)
        self.topic_names: dict[bytes, str] = {}
        self._followers: list[MetadataFollower] = []

    def follow(self, follower: MetadataFollower) -> None:
        """Call `follower` after each change, after the followers that were added before."""
        self._followers.append(follower)

    def apply(self, image: ClusterImage, delta: ClusterDelta) -> None:
        """Replace the image by `image`, the result of `delta`.

        Costs time in proportion to the delta.
        """
        before, self.image = self.image, image
        for topic_id in delta.deleted.values():
            self.topic_names.pop(topic_id, None)
        for topic in delta.topics.values():
            self.topic_names[topic.id] = topic.name
        for follower in self._followers:
            follower(before, image, delta)

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with that id, or None if there is no such topic."""
        return self.topic_names.get(topic_id)

"""KraftTopics: topics that a broker itself wants, in a cluster whose controllers are Apache's.

The broker sends CreateTopics to the controllers, with its own settings of these topics, as Apache
Kafka's AutoTopicCreationManager does.  Its own replication factors hold as they are set, whatever
the number of live brokers: the first broker of a new cluster must not create `__consumer_offsets`
with one replica because the others are not there yet.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from kwire.cluster.decisions.topic_creation import DEFAULT, NewTopic, by_default
from kwire.cluster.membership.topic_requests import creation_request
from kwire.cluster.metadata.refusal import Refusal
from kwire.cluster.peers.error import PeerError
from kwire.cluster.stores.contract import StoreError
from kwire.cluster.stores.kraft.forwarding import NotForwarded
from kwire.codecs.errors import ErrorCode, as_error_code
from kwire.codecs.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.stores.kraft.forwarding import Forwarding, RequestSender
    from kwire.cluster.stores.kraft.living import Calls
    from kwire.settings.live import LiveSettings

log = logging.getLogger("kwire.cluster")

WaitUntil = Callable[[Callable[["ClusterImage"], bool], int], Awaitable[bool]]
"""`ClusterMembership.wait_until`."""


class KraftTopics:
    """See the module."""

    def __init__(
        self,
        channel: Calls,
        forwarding: Forwarding,
        settings: LiveSettings,
        wait_until: WaitUntil,
    ) -> None:
        """`channel` sends the broker's own requests, `forwarding` those of its clients."""
        self._channel = channel
        self._forwarding = forwarding
        self._settings = settings
        self._wait_until = wait_until
        self._in_progress: dict[str, trio.Event] = {}
        """Topics that are being created, each with what is set at the end of that."""

    async def create_internal_topic(self, name: str) -> None:
        """Create the topic of a coordinator if it does not exist.  Raises Refusal, StoreError."""
        for result in await self._create_once([name], None):
            raise Refusal(as_error_code(result.error_code), result.error_message)

    async def create_on_first_use(
        self, names: Sequence[str], sender: RequestSender | None = None
    ) -> None:
        """Create topics that a client named and that do not exist.  Raises StoreError.

        The controllers check whether `sender` may create them; None: whether this broker may.
        """
        for result in await self._create_once(names, sender):
            log.info(
                "The controllers did not create topic %s: %s",
                result.name,
                result.error_message or as_error_code(result.error_code).name,
            )

    async def ask_for_topics(self, wanted: Sequence[NewTopic]) -> Mapping[str, str | None]:
        """Create these topics.

        Returns the error message of each topic that was not created.  Raises StoreError.
        """
        return {each.name: each.error_message for each in await self._create(wanted, None)}

    async def _create_once(
        self, names: Sequence[str], sender: RequestSender | None
    ) -> Sequence[CreatableTopicResult]:
        """Create topics, and wait for those that another task of this broker creates already.

        Returns the results of those that were not created.  Raises StoreError.
        """
        others = [self._in_progress[name] for name in names if name in self._in_progress]
        own = [name for name in dict.fromkeys(names) if name not in self._in_progress]
        ended = trio.Event()
        self._in_progress.update(dict.fromkeys(own, ended))
        try:
            wanted = [self._by_settings(name) for name in own]
            return await self._create(wanted, sender) if wanted else ()
        finally:
            for name in own:
                del self._in_progress[name]
            ended.set()
            for other in others:
                await other.wait()

    def _by_settings(self, name: str) -> NewTopic:
        """Return the topic with the partitions and replicas that this broker's settings say."""
        config = self._settings.config
        wanted = by_default(config, name, None)
        if wanted.num_partitions == DEFAULT:
            wanted.num_partitions = config.num_partitions
        if wanted.replication_factor == DEFAULT:
            wanted.replication_factor = config.default_replication_factor
        return wanted

    async def _create(
        self, wanted: Sequence[NewTopic], sender: RequestSender | None
    ) -> Sequence[CreatableTopicResult]:
        """Send CreateTopics, and wait until the new topics are in this broker's image.

        Returns the results of those that do not exist afterwards.  Raises StoreError.
        """
        timeout_ms: int = self._settings.config.request_timeout_ms
        response = await self._send(creation_request(wanted, timeout_ms), sender, timeout_ms)
        failed = [
            each
            for each in response.topics
            if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        ]
        created = {each.name for each in response.topics} - {each.name for each in failed}
        await self._wait_until(lambda image: created <= image.topics.keys(), timeout_ms)
        return failed

    async def _send(
        self, request: CreateTopicsRequest, sender: RequestSender | None, timeout_ms: int
    ) -> CreateTopicsResponse:
        """Return the response.  Raises StoreError, at the latest after `timeout_ms`."""
        with trio.move_on_after(timeout_ms / 1000):
            try:
                response: CreateTopicsResponse
                if sender is None:
                    response = await self._channel.call(request, timeout_ms)
                else:
                    # Its newest version, as no client has chosen one.
                    response = await self._forwarding.forward(request, request.MAX_VERSION, sender)
            except (PeerError, NotForwarded) as error:
                raise StoreError(str(error)) from error
            return response
        raise StoreError(f"the controllers do not answer within {timeout_ms} ms")

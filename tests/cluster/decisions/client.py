"""A client for administrative requests, which returns answers as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from kwire.broker.broker import Broker
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.codecs.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.codecs.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.codecs.primitives import Message
from tests.inside import RawClient

Response = TypeVar("Response", bound=Message)
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)


def new_topic(
    name: str,
    partitions: int = 1,
    factor: int = 1,
    assignments: Sequence[tuple[int, list[int]]] = (),
    configs: Mapping[str, str | None] | None = None,
) -> CreatableTopic:
    return CreatableTopic(
        name,
        partitions,
        factor,
        [CreatableReplicaAssignment(*assignment) for assignment in assignments],
        [CreatableTopicConfig(*config) for config in (configs or {}).items()],
    )


class AdminClient:
    """One connection to one broker."""

    def __init__(self, broker: Broker, client: RawClient) -> None:
        self.broker = broker
        self._client = client

    async def ask(self, request: Message, version: int, kind: type[Response]) -> Response:
        return await self._client.ask(request, version, kind)

    async def create(
        self, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
    ) -> list[CreatableTopicResult]:
        request = CreateTopicsRequest(list(topics), 5000, validate_only)
        return (await self.ask(request, version, CreateTopicsResponse)).topics

    async def make(self, *names: str, partitions: int = 1) -> None:
        """Create topics; fails if one is refused."""
        results = await self.create(*(new_topic(name, partitions) for name in names))
        assert [result.error_code for result in results] == [ErrorCode.NONE] * len(names)

    async def metadata(
        self, *names: str, version: int = 12, allow_creation: bool = False
    ) -> MetadataResponse:
        """The response for the named topics, or for all."""
        topics = [MetadataRequestTopic(name=name) for name in names] or None
        request = MetadataRequest(topics, allow_creation)
        return await self.ask(request, version, MetadataResponse)

    async def names(self) -> set[str | None]:
        return {topic.name for topic in (await self.metadata()).topics}

    async def describe(
        self, kind: int, name: str, *keys: str, synonyms: bool = False, version: int = 4
    ) -> DescribeConfigsResult:
        resource = DescribeConfigsResource(kind, name, list(keys) or None)
        request = DescribeConfigsRequest([resource], synonyms)
        return (await self.ask(request, version, DescribeConfigsResponse)).results[0]

    async def config(
        self, kind: int, name: str, key: str, synonyms: bool = False
    ) -> DescribeConfigsResourceResult:
        return (await self.describe(kind, name, key, synonyms=synonyms)).configs[0]

    async def alter(
        self,
        kind: int,
        name: str,
        *edits: tuple[str, int, str | None],
        validate_only: bool = False,
    ) -> tuple[ErrorCode, str | None]:
        """IncrementalAlterConfigs of one resource: its error and message."""
        resource = AlterConfigsResource(kind, name, [AlterableConfig(*edit) for edit in edits])
        request = IncrementalAlterConfigsRequest([resource], validate_only)
        response = await self.ask(request, 1, IncrementalAlterConfigsResponse)
        result = response.responses[0]
        assert (result.resource_type, result.resource_name) == (kind, name)
        return ErrorCode(result.error_code), result.error_message

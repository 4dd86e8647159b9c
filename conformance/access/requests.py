"""One request for each API key, which changes nothing where it is allowed.

The module of the API key in kwire.conformance.wire.cases builds it: `access_request` takes the
version and the id that the broker has given TOPIC.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages import request_class
from kwire.codecs.primitives import Message
from kwire.conformance.wire.cases import cases_module

TOPIC: Final = "present"
"""An existing topic with one partition."""
MISSING: Final = "missing"
"""A topic that does not exist."""
INDEX: Final = 99
"""A partition that no topic has, so that nothing is written or read."""
GROUP, TRANSACTION = "group", "transaction"
OWNER: Final = "admin"
"""The owner of an existing delegation token."""


class MessageClasses:
    """The classes of one API key's module: `MessageClasses("produce", topic_id).ProduceRequest`.

    `topic_id` is the id that the broker has given TOPIC.
    """

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self._module = import_module(f"kwire.codecs.messages.{name}")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - classes of any message
        return getattr(self._module, name)


AnyRequest: TypeAlias = Any
"""A request, of a class that is looked up by its name."""
BuildRequest = Callable[[MessageClasses, int], AnyRequest]

UNSTABLE: Final = {ApiKey.INIT_PRODUCER_ID: 6}
"""Versions in the schema that Apache Kafka does not serve, because they are unstable."""
LAST: Final = (ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE)
"""Sent after all others, since an allowed heartbeat turns GROUP into a streams group."""


@cache
def requested_versions() -> dict[str, range]:
    """Return the versions to request of each API key with an access request, by its lowercase name.

    They are in the order in which the requests are sent.
    """
    keys = [key for key in ApiKey if hasattr(cases_module(key), "access_request")]
    keys.sort(key=lambda key: (key in LAST, key))
    return {
        key.name.lower(): range(min(versions), max(versions) + 1)
        for key in keys
        for versions in [_versions(key)]
    }


def _versions(key: ApiKey) -> list[int]:
    return [version for version in request_class(key).READERS if version != UNSTABLE.get(key)]


def request_of(name: str, version: int, topic_id: bytes) -> Message:
    """Return the access request of an API key, given by its lowercase name."""
    module = cases_module(ApiKey[name.upper()])
    assert module is not None, name
    message: Message = module.access_request(version, topic_id)
    return message

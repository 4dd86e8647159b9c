"""Generates the files that list all messages: `messages/__init__.py` and `api_keys.py`."""

from __future__ import annotations

from kwire.codecs.generator.module import BANNER
from kwire.codecs.schema_notation import MessageSchema, snake_case

_REGISTRY = '''\
"""All messages of the protocol, in a module per API key or record type, imported at first use."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from kwire.codecs.primitives import Message

# The module of each message, below this package.
MODULES = {{
{modules}
}}

API_NAMES = {{
{names}
}}
"""Kafka's name of each API: the names of its messages without Request and Response."""


def message_class(name: str) -> type[Message]:
    """The class of a message by its name in the schema.  Raises KeyError for an unknown name."""
    message: type[Message] = getattr(import_module(f"{{__name__}}.{{MODULES[name]}}"), name)
    return message


@cache
def request_class(api_key: int) -> type[Message]:
    """The request class of an API key.  Raises KeyError for an unknown key."""
    return message_class(f"{{API_NAMES[api_key]}}Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """The response class of an API key.  Raises KeyError for an unknown key."""
    return message_class(f"{{API_NAMES[api_key]}}Response")
'''

_API_KEYS = '''\
"""The API keys and the header versions of their requests and responses."""

from __future__ import annotations

from enum import IntEnum


class ApiKey(IntEnum):
    """An API of the protocol.  4 to 7 are only used in clusters on ZooKeeper."""

{members}


# The first flexible version of each API that has one.
_FLEXIBLE_SINCE = {{
{flexible}
}}
_NEVER = 1 << 15  # above all versions


def request_header_version(key: int, version: int) -> int:
    """The version of a request's header; 1 for an unknown API key."""
    if key == ApiKey.CONTROLLED_SHUTDOWN and version == 0:
        return 0  # the header without a client id
    return 2 if version >= _FLEXIBLE_SINCE.get(key, _NEVER) else 1


def response_header_version(key: int, version: int) -> int:
    """The version of a response's header; 0 for an unknown API key."""
    if key == ApiKey.API_VERSIONS:
        return 0  # the client does not know the broker's versions yet (KIP-511)
    return 1 if version >= _FLEXIBLE_SINCE.get(key, _NEVER) else 0
'''


def registry_text(files: dict[str, list[MessageSchema]]) -> str:
    """Return the text of `messages/__init__.py`; `files` has the messages of each module."""
    modules = {message.name: name.replace("/", ".") for name in files for message in files[name]}
    names = {request.number: _api_name(request) for request in _requests(files)}
    return _fill(
        _REGISTRY,
        modules=[f'    "{name}": "{modules[name]}",' for name in sorted(modules)],
        names=[f'    {number}: "{name}",' for number, name in names.items()],
    )


def api_keys_text(files: dict[str, list[MessageSchema]]) -> str:
    """Return the text of `api_keys.py`: the number and first flexible version of each API."""
    requests = _requests(files)
    members = [f"{snake_case(_api_name(each)).upper()} = {each.number}" for each in requests]
    flexible = [
        f"{each.number}: {each.flexible_since}"
        for each in requests
        if each.flexible_since is not None
    ]
    return _fill(
        _API_KEYS,
        members=[f"    {member}" for member in members],
        flexible=[f"    {entry}," for entry in flexible],
    )


def _requests(files: dict[str, list[MessageSchema]]) -> list[MessageSchema]:
    found = [each for messages in files.values() for each in messages if each.kind == "request"]
    return sorted(found, key=lambda message: message.number or 0)


def _api_name(request: MessageSchema) -> str:
    return request.name.removesuffix("Request")


def _fill(template: str, **lines: list[str]) -> str:
    text = template.format(**{name: "\n".join(each) for name, each in lines.items()})
    return f"{BANNER.format('codecs/schema')}\n{text}"

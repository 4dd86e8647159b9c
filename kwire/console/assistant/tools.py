"""A tool: a method as an assistant sees it, and its errors as sentences."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, ToolAnnotations

from kwire.client.errors import (
    AuthenticationFailed,
    BrokerRefused,
    BrokerUnreachable,
    ClientError,
    RequestTimedOut,
)
from kwire.codecs.errors import ErrorCode
from kwire.console.assistant.answers import AnswerTooLong
from kwire.console.assistant.desk import Desk
from kwire.console.messages.one import BadInput
from kwire.console.messages.query import BadQuery
from kwire.console.text import visible_lines
from kwire.testing.control import ControlError

if TYPE_CHECKING:
    from mcp.server.context import LifespanContextT, RequestT
    from mcp.server.mcpserver.context import Context

ERROR_LENGTH_MAX: Final = 2_000
"""Characters of an error: brokers choose the text, and some name every host that failed."""
RIGHTS: Final = "the user of this server lacks the right for it; kwire acls add gives rights"
REMEDIES: Final[Mapping[ErrorCode, str]] = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "see list_topics for the topics that exist",
    ErrorCode.GROUP_ID_NOT_FOUND: "see list_groups for the groups that exist",
    ErrorCode.NON_EMPTY_GROUP: "stop the members of the group first; describe_group names them",
    ErrorCode.UNKNOWN_MEMBER_ID: "stop the members of the group first; describe_group names them",
    ErrorCode.OFFSET_OUT_OF_RANGE: "see describe_topic for the offsets of each partition",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: RIGHTS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: RIGHTS,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: RIGHTS,
}
"""What to do about errors that an assistant or its user can mend."""
UNREACHABLE: Final = (
    "is the broker running, and does kwire mcp have its address (-b) and its security "
    "(--command-config)?"
)


class ClusterTools(ABC):
    """The tools for one subject."""

    def __init__(self, desk: Desk) -> None:
        """`desk` is what the tools work with."""
        self._desk = desk

    @abstractmethod
    def tools(self) -> Iterator[Tool]:
        """Those that the server offers."""


class ClusterTool(Tool):
    """A tool that refuses arguments it does not have; a misspelt filter would else be ignored."""

    async def run(
        self,
        arguments: dict[str, Any],
        context: Context[LifespanContextT, RequestT],
        convert_result: bool = False,
    ) -> Any:  # noqa: ANN401 - as the base class
        """See Tool.  Raises ToolError."""
        known = self.parameters.get("properties", {})
        if unknown := sorted(set(arguments) - set(known)):
            names = ", ".join(known) or "no arguments"
            raise ToolError(f"{self.name} has no argument {unknown[0][:60]!r}; it takes {names}")
        return await super().run(arguments, context, convert_result)


Call = Callable[..., Awaitable[CallToolResult]]


def reads(method: Call) -> Tool:
    """A tool that changes nothing."""
    return _tool(method, ToolAnnotations(read_only_hint=True))


def adds(method: Call, *, is_idempotent: bool = False) -> Tool:
    """A tool that changes something, and loses nothing that was there."""
    return _tool(
        method,
        ToolAnnotations(
            read_only_hint=False, destructive_hint=False, idempotent_hint=is_idempotent
        ),
    )


def destroys(method: Call, *, is_idempotent: bool = False) -> Tool:
    """A tool that can lose records, offsets or settings."""
    return _tool(
        method,
        ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=is_idempotent),
    )


def _tool(method: Call, annotations: ToolAnnotations) -> Tool:
    name = method.__name__
    annotations.title = name.replace("_", " ").capitalize()
    made = ClusterTool.from_function(
        _in_words(method), name, annotations.title, inspect.getdoc(method),
        annotations=annotations, structured_output=False,
    )  # fmt: skip
    made.parameters["additionalProperties"] = False
    return made


def _in_words(method: Call) -> Call:
    """The method, with what it raises as a ToolError that says how to mend it."""

    @wraps(method)
    async def run(**arguments: Any) -> CallToolResult:  # noqa: ANN401 - as the method
        try:
            return await method(**arguments)
        except (ClientError, ControlError, BadInput, BadQuery, AnswerTooLong) as error:
            raise ToolError(words_of(error)) from error

    return run


def words_of(error: Exception) -> str:
    """An error as a sentence for the assistant, with what to do about it."""
    text = visible_lines(error, ERROR_LENGTH_MAX)
    remedy = ""
    if isinstance(error, BrokerRefused):
        remedy = REMEDIES.get(error.code, "")
    elif isinstance(error, BrokerUnreachable | AuthenticationFailed):
        remedy = UNREACHABLE
    elif isinstance(error, RequestTimedOut):
        remedy = "ask for less, or check_cluster finds what is slow"
    return f"{text.rstrip('.')}. {remedy[:1].upper()}{remedy[1:]}." if remedy else text

"""`kwire mcp` as a child process, and the client of the official package that talks to it."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the package takes a second to import, which only a worker that uses it spends
    from mcp import Client

TIMEOUT_S = 300.0
"""For one call on a busy machine."""


@asynccontextmanager
async def assistant(bootstrap: str, *options: str) -> AsyncIterator[Client]:
    """A client of a `kwire mcp` that it starts and ends."""
    from mcp import Client, StdioServerParameters

    arguments = ["-m", "kwire.cli", "mcp", "-b", bootstrap, *options]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(server, read_timeout_seconds=TIMEOUT_S) as client:
        yield client


async def asked(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """The structure of a tool's answer, which must be no error."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: Any) -> str:  # noqa: ANN401 - any JSON
    """The text of a tool's answer, which must be an error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error, result.structured_content
    return text_of(result)


def text_of(result: Any) -> str:  # noqa: ANN401 - any result of a tool
    """The text of an answer."""
    from mcp.types import TextContent

    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text

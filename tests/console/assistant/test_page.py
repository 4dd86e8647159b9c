"""The page about `kwire mcp` is true: its example starts a server, its tables name all tools."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest

from kwire.client.cluster import Cluster
from kwire.console.assistant.desk import Desk
from kwire.console.assistant.serving import tools_of
from kwire.console.decoding.decoder import Decoder
from kwire.console.pool import ClusterPool
from kwire.testing import Kafka
from kwire.testing.control import ControlClient
from tests.console.assistant.assisted import TIMEOUT_S, asked

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "mcp.md").read_text()


def test_page_names_every_tool_and_no_other() -> None:
    control = ControlClient("http://127.0.0.1:1")
    desk = Desk(ClusterPool(lambda: Cluster("127.0.0.1:1")), Decoder(), control, allows_writes=True)
    tools = {tool.name for tool in tools_of(desk)}
    section = PAGE[PAGE.index("## The tools") : PAGE.index("## Limits")]
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", section))
    assert named == tools


@pytest.mark.slow
async def test_example_of_the_page_starts_a_server(cluster: Kafka) -> None:
    from mcp import Client, StdioServerParameters

    (block,) = re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (server,) = json.loads(block)["mcpServers"].values()
    assert server["command"].endswith("/bin/kwire")
    arguments = [cluster.bootstrap if ":" in word else word for word in server["args"]]
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "kwire.cli", *arguments], env=dict(os.environ)
    )
    async with Client(parameters, read_timeout_seconds=TIMEOUT_S) as client:
        assert (await asked(client, "list_topics"))["topics"]

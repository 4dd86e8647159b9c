"""The command that installs a missing extra of kwire."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlparse

TOOLS: Final = {
    "uv-receipt.toml": ["uv", "tool", "install"],
    "pipx_metadata.json": ["pipx", "install", "--force"],
}
"""The file by which an environment of `uv tool` or pipx is known, and the command that installs
into it again.  uv puts no pip there."""


def how_to_install(extra: str) -> str:
    """The command that installs `extra` for this Python, from the same origin as kwire."""
    try:
        direct_url = distribution("kwire").read_text("direct_url.json")
    except PackageNotFoundError:
        direct_url = None
    return shlex.join([*installer(Path(sys.prefix)), *named(extra, direct_url)])


def installer(environment: Path) -> list[str]:
    """The command that installs packages into the environment of this Python."""
    for file, command in TOOLS.items():
        if (environment / file).exists():
            return command
    return [sys.executable, "-m", "pip", "install"]


def named(extra: str, direct_url: str | None) -> list[str]:
    """The arguments of pip for kwire with `extra`.

    `direct_url` is the content of `direct_url.json` (PEP 610), which names the folder or URL that
    kwire was installed from; None if it came from an index.
    """
    if direct_url is None:
        return [f"kwire[{extra}]"]
    origin = json.loads(direct_url)
    url = urlparse(origin["url"])
    if url.scheme != "file":
        return [f"kwire[{extra}] @ {origin['url']}"]
    editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
    return [*editable, f"{unquote(url.path)}[{extra}]"]

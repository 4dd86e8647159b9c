"""The command that installs a missing extra of kwire."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlparse


def how_to_install(extra: str) -> str:
    """The command that installs `extra` for this Python, from the same origin as kwire."""
    try:
        direct_url = distribution("kwire").read_text("direct_url.json")
    except PackageNotFoundError:
        direct_url = None
    return shlex.join([sys.executable, "-m", "pip", "install", *named(extra, direct_url)])


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

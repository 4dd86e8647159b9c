"""What to type where one of kwire's extras is missing."""

from __future__ import annotations

import json
import shlex
import sys
from importlib.metadata import PackageNotFoundError, distribution
from urllib.parse import unquote, urlparse


def how_to_install(extra: str) -> str:
    """The command that adds `extra` to this very Python, from where its kwire came from."""
    try:
        noted = distribution("kwire").read_text("direct_url.json")
    except PackageNotFoundError:
        noted = None
    return shlex.join([sys.executable, "-m", "pip", "install", *named(extra, noted)])


def named(extra: str, direct_url: str | None) -> list[str]:
    """kwire as pip is told of it: a folder where it was installed from one (PEP 610)."""
    if direct_url is None:
        return [f"kwire[{extra}]"]
    origin = json.loads(direct_url)
    url = urlparse(origin["url"])
    if url.scheme != "file":
        return [f"kwire[{extra}] @ {origin['url']}"]
    editable = ["-e"] if origin.get("dir_info", {}).get("editable") else []
    return [*editable, f"{unquote(url.path)}[{extra}]"]

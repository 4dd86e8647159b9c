"""The style sheet, the scripts and the icon, which are read once when the console starts.

A page is painted when its style sheet is there, so that no file and no thread stands in its way.
"""

from __future__ import annotations

import hashlib
import mimetypes
from pathlib import Path
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response


class StaticFile(NamedTuple):
    """A file as it is sent."""

    content: bytes
    media_type: str | None
    etag: str


class StaticFiles:
    """The files of one folder, by their names."""

    def __init__(self, folder: Path) -> None:
        """Reads all files of the folder, which has no other folders."""
        self._files: dict[str, StaticFile] = {}
        for path in folder.iterdir():
            content = path.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            self._files[path.name] = StaticFile(content, mimetypes.guess_type(path.name)[0], etag)

    async def answer(self, request: Request) -> Response:
        """The file that the path names, or status 304 if the browser has it already.

        Raises HTTPException if there is no such file.
        """
        file = self._files.get(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        headers = {"etag": file.etag}
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.content, headers=headers, media_type=file.media_type)

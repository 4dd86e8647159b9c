"""Archives: writes topics to Parquet files by topic and date, and reads them as a DataFrame."""

from __future__ import annotations

from kwire.pipeline.archiving.archive_settings import Archive
from kwire.pipeline.archiving.directory import Lost, archive_files, lost
from kwire.pipeline.archiving.publishing import Published, compact, publish
from kwire.pipeline.archiving.reading import archived
from kwire.pipeline.archiving.run import archive

__all__ = [
    "Archive",
    "Lost",
    "Published",
    "archive",
    "archive_files",
    "archived",
    "compact",
    "lost",
    "publish",
]

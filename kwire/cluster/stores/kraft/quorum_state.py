"""`quorum-state`: the leader and the epoch that this node knows, as JSON in Apache Kafka's format.

data_version 1    the log names the voters (kraft.version 1)
data_version 0    the voters are those of `controller.quorum.voters` (kraft.version 0)

An observer never votes.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kwire.cluster.stores.kraft.observing import NOBODY, Leader

if TYPE_CHECKING:
    from pathlib import Path

    from kwire.log.directory.files import Files

FILE_NAME: Final = "quorum-state"
_NO_VOTE: Final = -1
_NO_UUID: Final = "AAAAAAAAAAAAAAAAAAAAAA"

_logger = logging.getLogger(__name__)


def content(leader: Leader, static_voters: Sequence[int] | None) -> bytes:
    """Return the file; `static_voters` are the node ids of the voters if the log names none."""
    state: dict[str, Any] = {"leaderId": leader.id, "leaderEpoch": leader.epoch}
    if static_voters is None:
        state |= {"votedId": _NO_VOTE, "votedDirectoryId": _NO_UUID, "data_version": 1}
    else:
        voters = [{"voterId": voter} for voter in static_voters]
        state = {"clusterId": "", **state, "votedId": _NO_VOTE, "appliedOffset": 0}
        state |= {"currentVoters": voters, "data_version": 0}
    return json.dumps(state, separators=(",", ":")).encode()


def write(files: Files, folder: Path, leader: Leader, static_voters: Sequence[int] | None) -> None:
    """Replace the file atomically.  Raises OSError."""
    files.replace(folder / FILE_NAME, content(leader, static_voters))


def read(files: Files, folder: Path) -> Leader:
    """Return the leader in the file, NOBODY without a valid one.  Raises OSError.

    A damaged file does no harm to an observer: the controllers name the epoch again.
    """
    path = folder / FILE_NAME
    try:
        state = json.loads(files.read(path))
        return Leader(int(state["leaderId"]), int(state["leaderEpoch"]), None)
    except FileNotFoundError:
        return NOBODY
    except (ValueError, TypeError, LookupError) as error:
        _logger.warning("%s is ignored because it is damaged: %r", path, error)
        return NOBODY

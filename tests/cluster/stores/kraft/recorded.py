"""Metadata logs that Apache Kafka 4.4.0 wrote, and what one of its brokers answered at that time.

from-4.4.json.gz    a new cluster of a controller and two brokers: topics, configs, quotas, SCRAM
                    users, access rules, delegation tokens, a reassignment, registrations of other
                    brokers and controllers, cordoned directories, a kill -9 and a controlled
                    shutdown of broker 2, a kill -9 of the controller
from-3.9.json.gz    a cluster formatted for 3.9 with static voters, and raised to 4.4: no ELR and no
                    voters in the log at first, then ELRs that are cleared

Each has files of broker 1 as hex: the log, its snapshots after each few kilobytes (made by Apache
Kafka of its own image), and `quorum-state`.  `answers` has the bodies of answers.

record_anew.py makes the recordings.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from kwire.codecs.messages import message_class

CLUSTER = "AAAAAAAAQACEAgAAAAAAAA"
NAMES = ("from-4.4", "from-3.9")
LOG = "00000000000000000000.log"
CHECKPOINT = ".checkpoint"


class Recording:
    """One of the recordings."""

    def __init__(self, name: str) -> None:
        path = Path(__file__).parent / "data" / f"{name}.json.gz"
        content = json.loads(gzip.decompress(path.read_bytes()))
        self.files = {file: bytes.fromhex(text) for file, text in content["files"].items()}
        self.log = self.files[LOG]
        self._answers: dict[str, dict[str, Any]] = content["answers"]

    @property
    def snapshots(self) -> dict[tuple[int, int], bytes]:
        """The snapshots by their end offset and epoch."""
        return {
            (int(name[:20]), int(name[21:31])): content
            for name, content in self.files.items()
            if name.endswith(CHECKPOINT)
        }

    def answer(self, label: str) -> Any:  # noqa: ANN401 - each label has its own response class
        """The response of broker 1."""
        answer = self._answers[label]
        return message_class(answer["name"]).decode(bytes.fromhex(answer["hex"]), answer["version"])

    @property
    def answered_at(self) -> int:
        """The version of the image that the answers are about."""
        return int(self.answer("versions").finalized_features_epoch) + 1


@cache
def recording(name: str) -> Recording:
    """The recording of that name."""
    return Recording(name)

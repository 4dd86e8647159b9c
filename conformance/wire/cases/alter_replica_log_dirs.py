"""Cases of AlterReplicaLogDirs: the current directory, others, and unknown partitions."""

from __future__ import annotations

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.codecs.messages.describe_log_dirs import DescribeLogDirsRequest
from kwire.conformance.access.requests import INDEX, TOPIC
from kwire.conformance.wire.case import Cases
from kwire.conformance.wire.cases.build import filled_topic
from kwire.conformance.wire.stage import Stage

case = Cases(ApiKey.ALTER_REPLICA_LOG_DIRS)


def access_request(version: int, topic_id: bytes) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(TOPIC, [INDEX])]
    return AlterReplicaLogDirsRequest([AlterReplicaLogDir("/no/such", topics)])


NOWHERE = "/no/such/directory"


def here(stage: Stage) -> str:
    """Return the broker's only log directory."""
    path: str = stage.ask(DescribeLogDirsRequest([])).results[0].log_dir
    return path


def move(path: str, *partitions: tuple[str, list[int]]) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name, indexes) for name, indexes in partitions]
    return AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)])


@case("a partition to two directories")
def twice(stage: Stage) -> None:
    """One partition is named for two directories, the current and an unknown one, in both
    orders."""
    topic = filled_topic(stage).name
    request = move(here(stage), (topic, [0]))
    request.dirs += move(NOWHERE, (topic, [0])).dirs
    stage.send(request)
    request.dirs.reverse()
    stage.send(request)


case.requests(
    {
        "to where it is": lambda stage: move(here(stage), (filled_topic(stage).name, [0, 1])),
        "to a path that is no log directory": lambda stage: move(
            NOWHERE, (filled_topic(stage).name, [0])
        ),
        "to a relative path": lambda stage: move("data", (filled_topic(stage).name, [0])),
        "to no path": lambda stage: move("", (filled_topic(stage).name, [0])),
        "with a slash at the end": lambda stage: move(
            here(stage) + "/", (filled_topic(stage).name, [0])
        ),
        "unknown partitions": lambda stage: move(
            here(stage), (filled_topic(stage).name, [0, 9, -1])
        ),
        "an unknown topic": lambda stage: move(here(stage), (stage.name("nothing"), [0])),
        "an unknown topic to nowhere": lambda stage: move(NOWHERE, (stage.name("nothing"), [0])),
        "names that no topic can have": lambda stage: move(here(stage), ("", [0]), ("a b", [0])),
        "the same partition twice": lambda stage: move(
            here(stage), (filled_topic(stage).name, [0, 0])
        ),
        "no partitions": lambda stage: move(here(stage), (filled_topic(stage).name, [])),
        "no topics": lambda stage: move(here(stage)),
        "nothing": lambda stage: AlterReplicaLogDirsRequest(),
    }
)

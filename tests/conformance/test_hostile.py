"""The same hostile bytes to kwire and Apache Kafka, and that a difference is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kwire.codecs.api_keys import ApiKey
from kwire.codecs.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.conformance.hostile.allowed import EXCUSED, excuse_of
from kwire.conformance.hostile.batch_cases import batch_cases
from kwire.conformance.hostile.case import HostileCase
from kwire.conformance.hostile.cases import SEED, hostile_cases
from kwire.conformance.hostile.frame_cases import has_null_records, request_in
from kwire.conformance.hostile.runner import HostileRunner, HostileVerdict
from kwire.conformance.hostile.sound_requests import SOUND_REQUESTS
from kwire.conformance.hostile.stage import HostileStage
from kwire.conformance.pytest_apache import ApacheKafkaNode
from kwire.conformance.wire.broker import RemoteBroker, address_of
from kwire.conformance.wire.peer import frame
from kwire.requests.routes import ROUTES
from kwire.testing import BrokerProcess

KEYS = ("PRODUCE v", "FETCH v", "METADATA v", "OFFSET_COMMIT v", "CREATE_TOPICS v")
"""APIs whose damaged frames these tests send; the command sends those of all APIs."""

SERVED = {int(route.api_key): (route.min_version, route.max_version) for route in ROUTES}


@pytest.fixture(scope="module")
def runner(shared_broker: BrokerProcess, apache_kafka: ApacheKafkaNode) -> HostileRunner:
    brokers = [
        RemoteBroker(address_of(b)) for b in (shared_broker.bootstrap, apache_kafka.bootstrap)
    ]
    both = HostileRunner(brokers[0], brokers[1])
    both.prepare()
    return both


def chosen() -> Iterator[HostileCase]:
    """The cases of the default seed, whose differences were all examined."""
    for case in hostile_cases(SERVED, SEED):
        if case.name.startswith("batch/") or any(f"/{key}" in case.name for key in KEYS):
            yield case


@pytest.fixture(scope="module")
def verdicts(runner: HostileRunner) -> list[HostileVerdict]:
    return list(runner.run(chosen()))


def test_hostile_cases_have_the_same_outcome_on_kwire_and_kafka(
    verdicts: list[HostileVerdict],
) -> None:
    differ = [str(verdict) for verdict in verdicts if not verdict.agrees]
    assert not differ, "\n".join(differ)
    assert all(verdict.subject for verdict in verdicts), "nothing was compared"


def test_valid_batches_need_no_excuse(verdicts: list[HostileVerdict]) -> None:
    sound = [verdict for verdict in verdicts if verdict.case.name.endswith(": sound")]
    assert len(sound) == 6  # uncompressed, many records, and each codec
    assert [verdict.excuses for verdict in sound] == [()] * 6


def test_every_excuse_of_a_batch_is_used(verdicts: list[HostileVerdict]) -> None:
    """Only excuses of batch cases, which do not depend on the seed."""
    used = {excuse for verdict in verdicts for excuse in verdict.excuses}
    cases = {case.name for case in batch_cases()}
    excused = {excuse for excuse in EXCUSED if excuse.case.startswith("batch/")}
    assert {excuse.case for excuse in excused} <= cases
    unused = excused - used
    assert not unused, "\n".join(sorted(excuse.case for excuse in unused))


def test_hostile_case_that_differs_does_not_agree(runner: HostileRunner) -> None:
    def ask_one_only(stage: HostileStage) -> None:
        """Sends a known API key to one broker and an unknown one to the other."""
        key = "0012" if stage.broker is runner.oracle else "7fff"
        stage.spoiled(bytes.fromhex(f"0000000a {key} 0000 00000008 ffff"))

    [verdict] = runner.run([HostileCase("planted/one is cut", ask_one_only)])
    assert not verdict.agrees
    assert verdict.difference is not None
    assert verdict.difference.number == 0


def test_hostile_case_that_stops_early_does_not_agree(runner: HostileRunner) -> None:
    def stop(stage: HostileStage) -> None:
        raise LookupError("no such field")

    [verdict] = runner.run([HostileCase("planted/stops", stop)])
    assert not verdict.agrees
    assert "no such field" in str(verdict)


def test_every_served_api_has_a_valid_request_to_mutate() -> None:
    assert {int(key) for key in SOUND_REQUESTS} >= set(SERVED)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_mutations_with_null_records_are_recognised(version: int) -> None:
    for records, is_left_out in ((None, True), (b"", False), (b"any", False)):
        partition = PartitionProduceData(index=0, records=records)
        topic = TopicProduceData(name="t", partition_data=[partition])
        body = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic]).encode(version)
        sent = frame(ApiKey.PRODUCE, version, 7, body, "hostile")
        assert has_null_records(request_in(sent)) == is_left_out
        assert not has_null_records(request_in(sent[:-1]))  # it cannot be decoded
    assert request_in(frame(ApiKey.PRODUCE, 32767, 7, b"", "hostile")) is None


def test_hostile_excuse_applies_to_its_case_and_code_only() -> None:
    assert excuse_of("batch/gzip: a record less", "responses.error_code", set()) is not None
    assert excuse_of("batch/gzip: sound", "responses.error_code", set()) is None
    assert excuse_of("batch/set: null", "", set()) is not None
    assert excuse_of("mutation/FETCH v4: noise", "responses.error_code", {2}) is None
    assert excuse_of("mutation/FETCH v4: noise", "responses.error_code", {-1}) is not None

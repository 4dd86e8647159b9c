"""Messages as JSON."""

from __future__ import annotations

import base64
import json

import pytest

from kwire.codecs.batches import Compression, ControlType, Record, build, control_batch
from kwire.codecs.errors import ErrorCode
from kwire.codecs.messages import request_class, response_class
from kwire.codecs.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kwire.codecs.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codecs.messages.join_group import JoinGroupRequestProtocol
from kwire.codecs.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.codecs.messages.push_telemetry import PushTelemetryRequest
from kwire.codecs.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.codecs.uuids import uuid_text
from kwire.requests.routes import ROUTES
from kwire.testing.hooks.tracing.describe import described, errors_in, has_secrets

ID = bytes(15) + b"\1"


def test_request_is_described_with_its_batch_headers() -> None:
    batch = bytes(build([Record(0, 5, None, b"v"), Record(1, 5, None, b"w")], base_offset=0))
    request = ProduceRequest(
        acks=-1,
        timeout_ms=7,
        topic_data=[
            TopicProduceData(
                topic_id=ID, partition_data=[PartitionProduceData(3, memoryview(batch))]
            )
        ],
    )
    told = described(request)
    assert told["acks"] == -1
    assert told["timeoutMs"] == 7
    (topic,) = told["topicData"]
    assert topic["topicId"] == uuid_text(ID)
    (partition,) = topic["partitionData"]
    assert partition["index"] == 3
    (header,) = partition["records"]
    assert (header["baseOffset"], header["records"]) == (0, 2)
    assert header["sizeBytes"] == len(batch)
    json.dumps(told)


def test_batch_is_described_by_its_header_fields() -> None:
    plain = build([Record(0, 5, None, b"v")] * 2, base_offset=7)
    transactional = build(
        [Record(0, 5, None, b"v")],
        base_offset=9,
        compression=Compression.GZIP,
        producer_id=4,
        producer_epoch=3,
        base_sequence=2,
        transactional=True,
    )
    marker = control_batch(ControlType.COMMIT, 1, producer_id=4, producer_epoch=3, timestamp=5)
    batches = [plain, transactional, marker]
    partition = PartitionProduceData(0, b"".join(map(bytes, batches)))
    assert described(partition)["records"] == [
        {
            "baseOffset": base_offset,
            "records": records,
            "sizeBytes": len(batch),
            "compression": compression,
            "producerId": producer_id,
            "producerEpoch": producer_epoch,
            "baseSequence": base_sequence,
            "isTransactional": is_transactional,
            "isControl": is_control,
        }
        for batch, (
            base_offset,
            records,
            compression,
            producer_id,
            producer_epoch,
            base_sequence,
            is_transactional,
            is_control,
        ) in zip(
            batches,
            [
                (7, 2, "none", -1, -1, -1, False, False),
                (9, 1, "gzip", 4, 3, 2, True, False),
                (0, 1, "none", 4, 3, -1, True, True),
            ],
            strict=True,
        )
    ]


@pytest.mark.parametrize(
    ("name", "is_hidden"),
    [
        ("ssl.key.password", True),
        ("SASL.JAAS.CONFIG", True),
        ("delegation.token.secret.key", True),
        ("listener.key.passwd", True),
        ("retention.ms", False),
        ("", False),
    ],
)
def test_value_of_a_config_is_hidden_by_its_name(name: str, is_hidden: bool) -> None:
    config = AlterableConfig(name, 0, "shown")
    assert described(config)["value"] == ("(hidden)" if is_hidden else "shown")
    assert has_secrets(config) is is_hidden
    request = IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(4, "1", [config])])
    assert has_secrets(request) is is_hidden
    assert not has_secrets(AlterableConfig(name, 0, None)), "there is nothing to hide"


def test_bytes_are_base64_and_ids_are_kafkas_text() -> None:
    metadata = bytes(range(16))
    commit = described(JoinGroupRequestProtocol("range", metadata))
    assert base64.b64decode(commit["metadata"]) == metadata, "16 bytes that are no id"
    assert described(TopicProduceData(topic_id=ID))["topicId"] == uuid_text(ID)


def test_empty_lists_and_nulls_are_left_out() -> None:
    told = described(ProduceRequest(transactional_id=None, acks=1, timeout_ms=0, topic_data=[]))
    assert told == {"acks": 1, "timeoutMs": 0}


def test_data_that_is_not_a_batch_is_described_by_its_size() -> None:
    batch = bytes(build([Record(0, 5, None, b"v")]))
    cut = described(PartitionProduceData(0, batch + batch[:-1]))["records"]
    assert [each["sizeBytes"] for each in cut] == [len(batch), len(batch) - 1]
    assert cut[1]["isCutShort"]
    spoiled = batch[:16] + b"\x09" + batch[17:]
    (told,) = described(PartitionProduceData(0, spoiled))["records"]
    assert told == {"sizeBytes": len(batch), "unreadable": "unknown magic 9"}


def test_error_codes_are_described_by_name() -> None:
    answer = PartitionProduceResponse(0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    response = ProduceResponse(
        [TopicProduceResponse("t", partition_responses=[answer, PartitionProduceResponse(1, 9999)])]
    )
    assert list(errors_in(response)) == ["NOT_LEADER_OR_FOLLOWER", "9999"]
    (first, second) = described(response)["responses"][0]["partitionResponses"]
    assert (first["errorCode"], second["errorCode"]) == ("NOT_LEADER_OR_FOLLOWER", "9999")


def test_secrets_are_hidden() -> None:
    secret = b"s3cret"
    told = [
        described(SaslAuthenticateRequest(auth_bytes=secret)),
        described(
            AlterUserScramCredentialsRequest(
                upsertions=[ScramCredentialUpsertion("u", 1, 4096, secret, secret)]
            )
        ),
        described(
            IncrementalAlterConfigsRequest(
                resources=[
                    AlterConfigsResource(
                        4,
                        "1",
                        [
                            AlterableConfig("ssl.key.password", 0, "s3cret"),
                            AlterableConfig("a", 0, "b"),
                        ],
                    )
                ]
            )
        ),
    ]
    text = json.dumps(told)
    assert "s3cret" not in text
    assert "czNjcmV0" not in text  # the same in base64
    assert text.count("(hidden)") == 4
    assert '"value": "b"' in text


def test_long_fields_are_left_out() -> None:
    request = PushTelemetryRequest(metrics=b"m" * 100)
    assert described(request)["metrics"] == "(left out)"
    assert not has_secrets(request)


@pytest.mark.parametrize("api_key", [int(route.api_key) for route in ROUTES])
def test_every_message_is_described_as_json(api_key: int) -> None:
    json.dumps(described(request_class(api_key)()))
    json.dumps(described(response_class(api_key)()))

"""Messages as JSON, and the check of files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kwire.codecs.__main__ import main
from kwire.codecs.json_form import Json, JsonFormError, first_difference, from_json, to_json
from kwire.codecs.messages.describe_client_quotas import DescribeClientQuotasResponse
from kwire.codecs.messages.fetch import FetchRequest, ReplicaState
from kwire.codecs.primitives import EncodeError

GOOD: dict[str, Any] = {
    "message": "DefaultPrincipalData",
    "kind": "data",
    "key": None,
    "version": 0,
    "json": {"type": "U", "name": "é", "tokenAuthenticated": True},
    "hex": "025503c3a90100",
}


def changed(**members: Any) -> str:  # noqa: ANN401 - any JSON
    return json.dumps({**GOOD, **members})


def test_tagged_fields_at_their_defaults_are_left_out() -> None:
    json_form = to_json(FetchRequest(replica_state=ReplicaState()), 15)
    assert "clusterId" not in json_form
    assert "replicaState" not in json_form
    assert "replicaId" not in json_form
    assert json_form["maxBytes"] == 0x7FFFFFFF
    given = {**json_form, "clusterId": None, "replicaState": {"replicaId": -1, "replicaEpoch": -1}}
    assert from_json("FetchRequest", given, 15).encode(15) == FetchRequest().encode(15)


def test_json_field_of_another_version_is_dropped_or_refused() -> None:
    json_form = {**to_json(FetchRequest(), 10), "rackId": "r"}
    assert from_json("FetchRequest", json_form, 10).encode(10) == FetchRequest().encode(10)
    message = from_json("FetchRequest", {**json_form, "clusterId": "c"}, 10)
    assert message == FetchRequest(rack_id="r", cluster_id="c")
    set_wrongly = FetchRequest(replica_state=ReplicaState(1))
    with pytest.raises(EncodeError):
        to_json(set_wrongly, 10)


@pytest.mark.parametrize(
    ("member", "value", "fault"),
    [
        ("type", 1, r"DefaultPrincipalData\.type is not of type string: 1"),
        ("type", None, "not of type string: None"),
        ("tokenAuthenticated", 1, "not of type bool: 1"),
    ],
)
def test_json_of_a_wrong_type_is_refused(member: str, value: Json, fault: str) -> None:
    with pytest.raises(JsonFormError, match=fault):
        from_json("DefaultPrincipalData", {**GOOD["json"], member: value}, 0)


@pytest.mark.parametrize("value", [1 << 31, -(1 << 31) - 1, True, 1.0, "1", None, []])
def test_json_number_beyond_int32_is_refused(value: Any) -> None:  # noqa: ANN401 - any JSON
    with pytest.raises(JsonFormError, match="not of type int32"):
        from_json("EndTxnMarker", {"coordinatorEpoch": value}, 0)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 0.1, -0.0])
def test_non_finite_numbers_are_strings_in_json(value: float) -> None:
    json_form: Any = {
        "throttleTimeMs": 0,
        "errorCode": 0,
        "errorMessage": None,
        "entries": [{"entity": [], "values": [{"key": "k", "value": value}]}],
    }
    message = from_json("DescribeClientQuotasResponse", json_form, 1)
    again = DescribeClientQuotasResponse.decode(message.encode(1), 1)
    assert first_difference(json_form, to_json(again, 1)) is None
    written = json.dumps(to_json(again, 1), allow_nan=False)
    assert from_json("DescribeClientQuotasResponse", json.loads(written), 1).encode(1) == (
        message.encode(1)
    )


def test_first_difference_names_the_path() -> None:
    assert first_difference({"a": [1, {"b": True}]}, {"a": [1, {"b": 1}]}) == (
        "$.a[1].b is 1, expected True"
    )
    assert first_difference({"a": 1}, {"a": 1, "b": 2}) == "$.b is 2, expected nothing"
    assert first_difference({"a": 1, "b": 2}, {"b": 2}) == "$.a is missing, expected 1"
    assert first_difference([1], [1, 2]) == "$ is [1, 2], expected [1]"
    assert first_difference({"a": 1, "b": 2.0}, {"b": 2.0, "a": 1}) is None


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> tuple[int, list[str]]:
    path = tmp_path / "vectors.jsonl"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    status = main([str(path)])
    return status, capsys.readouterr().out.splitlines()


def test_check_of_a_file_without_faults_exits_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{changed()}\n\n{changed()}\n"
    assert check(tmp_path, capsys, text) == (0, ["2 of 2"])
    assert check(tmp_path, capsys, "") == (0, ["0 of 0"])


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (changed(hex="025503c3a90000"), "at byte 5 0100, expected 0000"),
        (changed(hex="025503c3a901"), "at byte 6 00, expected the end"),
        (changed(hex="025503c3a9010000"), "at byte 7 the end, expected 00"),
        (changed(hex="02zz"), '"hex" or "json" is missing or malformed'),
        (changed(hex=None), '"hex" or "json" is missing or malformed'),
        (changed(json={**GOOD["json"], "name": "e"}), "expected 7: at byte 2 02650100"),
        (changed(json={"type": "U", "name": "é"}), "tokenAuthenticated is missing"),
        (changed(json={**GOOD["json"], "more": 1}), "$.more is missing, expected 1"),
        (changed(json=[]), "DefaultPrincipalData is not an object: []"),
        (changed(version=7), "DefaultPrincipalData version 7: json does not encode"),
        (changed(version="0"), 'it has no "message" (a name) and "version" (a number)'),
        (changed(message="Nothing"), "Nothing version 0: no such message"),
        ("[]", "not a JSON object: []"),
        ("{", "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ("\udcff{}", "not JSON: "),
    ],
)
def test_check_names_a_line_that_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, fault: str
) -> None:
    status, output = check(tmp_path, capsys, f"{changed()}\n{line}\n{changed()}\n")
    assert status == 1
    assert len(output) == 2
    assert output[0].startswith("line 2: ")
    assert fault in output[0]
    assert output[1] == "2 of 3"


def test_check_of_an_unreadable_file_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    (tmp_path / "torn.gz").write_bytes(b"\x1f\x8b\x08")
    assert main([str(tmp_path / "torn.gz")]) == 2


@pytest.mark.slow
def test_command_prints_faults_and_count(tmp_path: Path) -> None:
    path = tmp_path / "vectors.jsonl"
    path.write_text(changed())
    command = [sys.executable, "-m", "kwire.codecs", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "1 of 1\n", "")

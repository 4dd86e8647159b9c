"""The upgrade reads schemas out of jars, and writes them in the notation of codecs/schema."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from kwire.codecs.schema_notation import parse
from tools.upgrade.jars import JarsError, kafka_jars, parse_json, read_schemas, release_of
from tools.upgrade.notation import NotationError
from tools.upgrade.schema_files import file_texts, lost_comments, texts_in, write

REQUEST = """// A licence
{
  "apiKey": 97, "type": "request", "listeners": ["broker"], "name": "KRaftExampleRequest",
  // Version 1 is gone.
  "validVersions": "2-5", "flexibleVersions": "4+",
  "fields": [
    { "name": "Url", "type": "string", "versions": "0+", "nullableVersions": "3+",
      "default": "null", "about": "Such as http://host // not a comment" },
    { "name": "Count", "type": "int32", "versions": "0+", "default": "0x10", "ignorable": true },
    { "name": "Zero", "type": "int32", "versions": "0+", "default": "0" },
    { "name": "On", "type": "bool", "versions": "0+", "default": true },
    { "name": "Old", "type": "int32", "versions": "0-1" },
    { "name": "Topics", "type": "[]Topic", "versions": "1-4", "fields": [
      { "name": "Ids", "type": "[]int32", "versions": "0+", "nullableVersions": "0+",
        "default": null },
      { "name": "Late", "type": "uuid", "versions": "4+" }
    ]},
    { "name": "Pairs", "type": "[]Pair", "taggedVersions": "5+", "tag": 0, "versions": "5+" }
  ],
  "commonStructs": [
    { "name": "Pair", "versions": "0+", "fields": [
      { "name": "Key", "type": "string", "versions": "0+", "flexibleVersions": "none" } ]}
  ]
}
"""
RESPONSE = """{ "apiKey": 97, "type": "response", "name": "KRaftExampleResponse",
  "validVersions": "2-5", "flexibleVersions": "4+",
  "fields": [{ "name": "ErrorCode", "type": "int16", "versions": "0+" }] }"""
TEXT = """\
# KRaftExample: API key 97

request 97 KRaftExampleRequest, versions 2-5, flexible 4+
    Url: string?3+ = null
    Count: int32 = 0x10, ignorable
    Zero: int32
    On: bool = true
    Topics: []Topic, 2-4
        Ids: []int32?
        Late: uuid, 4+
    Pairs: []Pair, 5+, tag 0
    struct Pair
        Key: string, rigid

response 97 KRaftExampleResponse, versions 2-5, flexible 4+
    ErrorCode: int16
"""
COMMENTED = """\
# An example
# of two lines.

request 97 KRaftExampleRequest, versions 1-4, flexible 4+
    # Where it is.
    Url: string  # a URL
    Old: int32  # gone soon
    Topics: []Topic
        Ids: []int32  # may be null
"""


def write_jar(folder: Path, artifact: str, entries: dict[str, str]) -> None:
    with zipfile.ZipFile(folder / f"{artifact}-9.9.0-rc1.jar", "w") as jar:
        for name, text in entries.items():
            jar.writestr(name, text)


@pytest.fixture
def jars(tmp_path: Path) -> Path:
    folder = tmp_path / "libs"
    folder.mkdir()
    entries = {"common/message/E.json": REQUEST, "common/message/F.json": RESPONSE}
    write_jar(folder, "kafka-clients", {**entries, "META-INF/other.json": "no schema"})
    return folder


def metadata(name: str, number: int) -> str:
    return f"""{{"apiKey": {number}, "type": "metadata", "name": "{name}", "validVersions": "0",
        "flexibleVersions": "0+", "fields": []}}"""


def test_schemas_of_a_jar_become_one_file_for_request_and_response(jars: Path) -> None:
    texts = file_texts(read_schemas(jars), {})
    assert texts == {"kraft_example": TEXT}
    request, response = parse(TEXT, "kraft_example.txt")
    assert (request.number, response.name) == (97, "KRaftExampleResponse")


def test_existing_comments_stay_at_their_lines_and_lost_ones_are_reported(jars: Path) -> None:
    existing = COMMENTED
    text = file_texts(read_schemas(jars), {"kraft_example": existing})["kraft_example"]
    assert text.startswith("# An example\n# of two lines.\n\nrequest 97 ")
    assert "    # Where it is.\n    Url: string?3+ = null  # a URL\n" in text
    assert "        Ids: []int32?  # may be null\n" in text
    assert list(lost_comments(text, existing)) == ["KRaftExampleRequest.Old: # gone soon"]


def test_title_of_a_new_file_names_the_topic_of_the_record(jars: Path) -> None:
    write_jar(jars, "kafka-metadata", {"common/metadata/A.json": metadata("OneRecord", 3)})
    write_jar(jars, "kafka-storage", {"message/B.json": metadata("TwoRecord", 4)})
    key = metadata("PairKey", 5).replace('"metadata"', '"coordinator-key"')
    write_jar(jars, "kafka-group-coordinator", {"common/message/PairKey.json": key})
    texts = file_texts(read_schemas(jars), {})
    assert {stem: text.splitlines()[0] for stem, text in texts.items()} == {
        "one_record": "# OneRecord: record type 3 of __cluster_metadata",
        "two_record": "# TwoRecord: record type 4 of __remote_log_metadata",
        "coordinator/pair": "# Pair: record type 5 of an internal topic",
        "kraft_example": "# KRaftExample: API key 97",
    }


def test_message_without_valid_versions_has_no_file(jars: Path) -> None:
    gone = metadata("GoneRecord", 3).replace('"0",', '"none",', 1)
    write_jar(jars, "kafka-metadata", {"common/metadata/A.json": gone})
    assert list(file_texts(read_schemas(jars), {})) == ["kraft_example"]


@pytest.mark.parametrize(
    ("field", "fault"),
    [
        ('"nullableVersions": "2-3"', r"KRaftExampleRequest\.Url may be null in an early version"),
        ('"tag": 1, "taggedVersions": "5+"', r"\.Url is tagged in some of its versions only"),
    ],
)
def test_schema_that_the_notation_lacks_is_refused(tmp_path: Path, field: str, fault: str) -> None:
    text = REQUEST.replace('"nullableVersions": "3+"', field)
    write_jar(tmp_path, "kafka-clients", {"common/message/E.json": text})
    with pytest.raises(NotationError, match=fault):
        file_texts(read_schemas(tmp_path), {})


def test_two_slashes_in_a_string_are_not_a_comment() -> None:
    assert parse_json('{"a": "b//c\\"// d" /* e\n */} // f') == {"a": 'b//c"// d'}


def test_release_is_that_of_the_clients_jar(jars: Path) -> None:
    for other in ("kafka-clients-9.9.0-rc1-test.jar", "kafka-tools-api-9.9.0.jar", "jackson-2.jar"):
        (jars / other).touch()
    assert release_of(jars) == "9.9.0-rc1"
    assert list(kafka_jars(jars)) == ["kafka-clients", "kafka-tools-api"]


def test_folder_of_two_releases_or_without_clients_is_refused(jars: Path, tmp_path: Path) -> None:
    (jars / "kafka-clients-9.8.0.jar").touch()
    with pytest.raises(JarsError, match="two versions of kafka-clients"):
        release_of(jars)
    with pytest.raises(JarsError, match=r"has no jar of kafka-clients"):
        release_of(tmp_path)


def test_only_files_that_differ_are_written(tmp_path: Path) -> None:
    texts = {"a": "one\n", "coordinator/b": "two\n"}
    assert write(tmp_path, texts) == ["a", "coordinator/b"]
    assert texts_in(tmp_path) == texts
    assert write(tmp_path, {**texts, "a": "three\n"}) == ["a"]

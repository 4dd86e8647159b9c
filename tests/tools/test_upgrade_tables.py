"""The tables that an upgrade writes are those in the repository, unless the release differs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kwire.codecs.errors import ErrorCode
from kwire.conformance.apache_kafka import VERSION, libs
from kwire.testing.hooks.control.releases import CHANGES
from tools import releases
from tools.upgrade import __main__ as command
from tools.upgrade.facts import Error, FeatureLevel, Setting
from tools.upgrade.release import read_release
from tools.upgrade.schema_files import file_texts, texts_in
from tools.upgrade.tables import features_table, settings_table, with_errors, write_tables

ERRORS = [Error(code.value, code.name, code.retriable) for code in ErrorCode]
SETTING = Setting("topic", "a.b", "INT", "1", "", "LOW", "", True, "", "")


def test_unchanged_error_codes_leave_the_module_as_it_is() -> None:
    source = (command.ROOT / "codecs/errors.py").read_text("utf-8")
    assert with_errors(source, reversed(ERRORS)) == source


def test_new_error_code_is_added_with_its_number_and_kind() -> None:
    source = (command.ROOT / "codecs/errors.py").read_text("utf-8")
    text = with_errors(source, [*ERRORS, Error(999, "NEW_ONE", True)])
    assert "    NEW_ONE = 999\n\n    @property" in text
    assert "        ErrorCode.NEW_ONE,\n    }\n" in text
    assert text.count("\n") == source.count("\n") + 2


def test_module_without_one_list_of_error_codes_is_refused() -> None:
    with pytest.raises(ValueError, match="0 lists of error codes"):
        with_errors("class ErrorCode:\n    pass\n", ERRORS)


def test_settings_table_has_the_settings_of_brokers_topics_and_groups() -> None:
    rows = [
        SETTING,
        SETTING._replace(resource="admin"),
        SETTING._replace(name="a.a", internal=False),
    ]
    assert settings_table(rows).splitlines()[1:] == [
        "topic\ta.a\tINT\t1\tLOW\t\t",
        "topic\ta.b\tINT\t1\tLOW\t\tinternal",
    ]


def test_features_table_has_what_each_level_adds() -> None:
    levels = [
        FeatureLevel(
            "f", 0, "F0", True, "{}", "3.3", {"isOn": "false", "didMetadataChange": "true"}
        ),
        FeatureLevel("f", 1, "F1", False, "{g=2}", "4.0", {"isOn": "true", "isOff": "none"}),
        FeatureLevel("g", 0, "G0", True, "{}", "4.0", {"isOn": "true"}),
    ]
    assert features_table(levels).splitlines()[1:] == [
        "f\t0\tF0\tyes\tyes\t\t3.3\tisOn=false",
        "f\t1\tF1\tno\tno\tg=2\t4.0\tisOff=none, isOn=true",
        "g\t0\tG0\tyes\tno\t\t4.0\tisOn=true",
    ]


def test_tables_of_a_release_replace_those_of_the_one_before(tmp_path: Path) -> None:
    for name in ("codecs", "tests/settings", "tests/cluster/metadata"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(command.ROOT / "codecs/errors.py", tmp_path / "codecs")
    (tmp_path / "tests/settings/kafka-4.3.1.tsv").touch()
    settings, features = (
        "tests/settings/kafka-9.0.0.tsv",
        "tests/cluster/metadata/features-9.0.0.tsv",
    )
    assert write_tables(tmp_path, "9.0.0", ERRORS, [SETTING], []) == [settings, features]
    assert write_tables(tmp_path, "9.0.0", ERRORS, [SETTING], []) == []
    assert sorted(path.name for path in tmp_path.rglob("*.tsv")) == [
        "features-9.0.0.tsv",
        "kafka-9.0.0.tsv",
    ]


# -- the command


def test_neither_a_release_nor_a_folder_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_of:
        command.main(["4.5"])
    assert exit_of.value.code == 2
    assert "'4.5' is neither a release such as 4.5.0 nor a folder" in capsys.readouterr().err


def test_folder_without_jars_ends_the_command_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--list", "--from", str(tmp_path), str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"upgrade: {tmp_path} has no jar of kafka-clients\n"


# -- releases


def test_table_of_releases_is_written_as_it_is_in_the_repository() -> None:
    assert releases.table_text(CHANGES).startswith(releases.HEAD)
    text = releases.TARGET.read_text("utf-8")
    assert text.startswith(releases.HEAD)
    assert text.endswith(releases.TAIL)


def test_list_has_the_releases_of_the_table() -> None:
    listed = releases.LIST.read_text("utf-8").split()
    assert [releases.minor(release) for release in listed] == list(CHANGES)


def test_release_is_added_by_what_differs_from_the_one_before() -> None:
    table = {"1.0": "0:1 1:2 3:0", "1.1": "1:3 -3"}
    assert releases.with_release(table, "1.2", {0: 1, 1: 4, 7: 0}) == {**table, "1.2": "1:4 7:0"}
    assert releases.with_release(table, "1.1", {0: 1}) == {"1.0": table["1.0"], "1.1": "-1 -3"}


def test_later_patch_replaces_its_release_in_the_list() -> None:
    assert releases.with_listed(["4.2.0", "4.3.0"], "4.3.1") == ["4.2.0", "4.3.1"]
    assert releases.with_listed(["4.2.0", "4.3.0"], "4.4.0") == ["4.2.0", "4.3.0", "4.4.0"]


# -- real jars


@pytest.mark.java
@pytest.mark.long
def test_repository_is_what_the_upgrade_to_the_reference_writes() -> None:
    """The schemas, error codes, settings, features and the newest release, by the jars."""
    release = read_release(libs(VERSION))
    assert release.version == VERSION
    existing = texts_in(command.ROOT / command.SCHEMAS)
    for stem, text in file_texts(release.schemas, existing).items():
        assert existing.get(stem) == text, stem
    facts = release.facts
    assert facts.errors == ERRORS
    tables = {
        f"tests/settings/kafka-{VERSION}.tsv": settings_table(facts.settings),
        f"tests/cluster/metadata/features-{VERSION}.tsv": features_table(facts.features),
    }
    for name, text in tables.items():
        assert (command.ROOT / name).read_text("utf-8") == text, name
    versions = command.highest_versions(facts)
    assert releases.with_release(CHANGES, releases.minor(VERSION), versions) == CHANGES

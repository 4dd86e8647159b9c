"""Decisions to delete, and to change configs and modes."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress

import pytest

from kwire.registry.subjects.changing import (
    delete_config,
    delete_context,
    delete_mode,
    read_config,
    set_mode,
)
from kwire.registry.subjects.errors import RegistryError
from kwire.registry.subjects.state import Filter
from tests.registry.subjects.test_registering import reference, refused
from tests.registry.subjects.toy import Machine


def test_version_is_deleted_in_two_steps() -> None:
    machine = Machine()
    machine.register("s", "a")
    with refused(40407):
        machine.delete("s", 1, permanent=True)
    assert machine.delete("s", 1) == 1
    with refused(40406):
        machine.delete("s", 1)
    assert machine.delete("s", 1, permanent=True) == 1
    with refused(40401):
        machine.delete("s", 1)
    assert machine.registry.by_id(1) is None


def test_version_that_is_not_there_is_refused() -> None:
    machine = Machine()
    with refused(40401):
        machine.delete("s", 1)
    machine.register("s", "a")
    with refused(40402):
        machine.delete("s", 2)


def test_latest_version_is_deleted() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("s", "a b?")
    assert machine.delete("s", None) == 2
    assert machine.delete("s", None) == 1
    with refused(40402):
        machine.delete("s", None)


def test_subject_is_deleted_in_two_steps() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.register("s", "a b?")
    with refused(40405):
        machine.delete_subject("s", permanent=True)
    assert machine.delete_subject("s") == [1, 2]
    with refused(40404):
        machine.delete_subject("s")
    assert machine.delete_subject("s", permanent=True) == [1, 2]
    with refused(40401):
        machine.delete_subject("s")
    assert "s" not in machine.registry.subjects


def test_deleted_subject_goes_on_with_the_next_version() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.delete_subject("s")
    assert machine.register("s", "b").version == 2


def test_permanently_deleted_subject_begins_anew_with_new_ids() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.delete_subject("s")
    machine.delete_subject("s", permanent=True)
    made = machine.register("s", "b")
    assert (made.version, made.id) == (1, 2)


def test_config_and_mode_of_a_subject_end_with_its_last_version() -> None:
    machine = Machine()
    for delete in (lambda: machine.delete("s", None), lambda: machine.delete_subject("s")):
        machine.register("s", "a")
        machine.configure("s", compatibility="none")
        machine.set_mode("s", "READWRITE")
        delete()
        assert machine.registry.config("s") is None
        assert machine.registry.mode("s") is None


def test_version_to_which_another_refers_is_not_deleted() -> None:
    machine = Machine()
    machine.register("t", "b")
    machine.register("s", "a", references=[reference("t")])
    with refused(42206):
        machine.delete("t", 1)
    with refused(42206):
        machine.delete_subject("t")
    machine.delete_subject("s")
    assert machine.delete("t", 1) == 1


def test_read_only_subject_is_not_deleted() -> None:
    machine = Machine()
    machine.register("s", "a")
    machine.set_mode("", "READONLY")
    with refused(42205):
        machine.delete("s", 1)
    with refused(42205):
        machine.delete_subject("s")
    with refused(42205):
        machine.configure("s", compatibility="none")


def test_subject_of_another_context_is_not_deleted() -> None:
    machine = Machine()
    machine.register(":.lab:s", "a")
    with refused(40401):
        machine.delete("s", 1)
    with refused(40401):
        machine.delete_subject("s")


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"compatibility": "sideways"},
        {"compatibility": 1},
        {"normalize": "yes"},
        {"other": 1},
    ],
)
def test_config_with_a_wrong_field_is_refused(fields: dict[str, object]) -> None:
    with refused(42203):
        read_config(fields)


def test_config_is_merged_and_null_removes_a_field() -> None:
    machine = Machine()
    machine.configure("s", compatibility="full", normalize=True)
    machine.configure("s", compatibility="none")
    config = {"subject": "s", "normalize": True, "compatibilityLevel": "NONE"}
    assert machine.registry.config("s") == config
    machine.configure("s", normalize=None)
    assert machine.registry.config("s") == {"subject": "s", "compatibilityLevel": "NONE"}


def test_config_is_removed_once() -> None:
    machine = Machine()
    machine.configure("s", compatibility="full")
    config, writes = delete_config(machine.registry, "s")
    machine.write(writes)
    assert config["compatibilityLevel"] == "FULL"
    with refused(40401):
        delete_config(machine.registry, "s")
    assert delete_config(machine.registry, "") == ({}, [])


def test_mode_is_removed_once() -> None:
    machine = Machine()
    machine.set_mode("s", "READONLY")
    mode, writes = delete_mode(machine.registry, "s")
    machine.write(writes)
    assert mode == "READONLY"
    with refused(40401):
        delete_mode(machine.registry, "s")


@pytest.mark.parametrize("mode", ["", None, "SIDEWAYS", 1])
def test_unknown_mode_is_refused(mode: object) -> None:
    with refused(42204):
        set_mode(Machine().registry, "s", mode, force=False)


def test_context_is_removed_when_it_has_no_subjects() -> None:
    machine = Machine()
    machine.register(":.lab:s", "a")
    assert list(machine.registry.contexts) == [".", ".lab"]
    with refused(42211):
        delete_context(machine.registry, ".lab")
    machine.delete_subject(":.lab:s")
    machine.delete_subject(":.lab:s", permanent=True)
    machine.write(delete_context(machine.registry, ".lab"))
    assert list(machine.registry.contexts) == ["."]


def test_hundred_random_histories_are_the_same_after_compaction(rng: random.Random) -> None:
    for _ in range(100):
        machine = Machine()
        for _ in range(40):
            change_at_random(machine, rng)
        again = Machine(machine.compacted())
        live, replayed = machine.registry, again.registry
        assert replayed.configs == live.configs
        assert replayed.modes == live.modes
        names = sorted(live.subjects)
        assert sorted(replayed.subjects) == names
        for name in names:
            assert replayed.versions(name, Filter.ALL) == live.versions(name, Filter.ALL)
        assert replayed.max_ids() == live.max_ids()
        assert replayed.referrers == live.referrers
        assert not live.repairs


def change_at_random(machine: Machine, rng: random.Random) -> None:
    """One change, which may be refused."""
    subject = rng.choice(["s", "t", ":.lab:s", ":.lab:t"])
    schema = rng.choice(["a", "a b?", "a b? c?", "z"])
    version = rng.choice([None, 1, 2, 3])
    permanent = rng.random() < 0.5
    references = [reference(rng.choice(["s", "t"]), rng.randint(1, 3))]
    changes: list[Callable[[], object]] = [
        lambda: machine.register(subject, schema),
        lambda: machine.register(subject, schema, references=references),
        lambda: machine.delete(subject, version, permanent=permanent),
        lambda: machine.delete_subject(subject, permanent=permanent),
        lambda: machine.configure(subject, compatibility=rng.choice(["none", "backward"])),
        lambda: machine.set_mode(subject, rng.choice(["READWRITE", "READWRITE", "READONLY"])),
        lambda: machine.set_mode(subject, "READWRITE"),
    ]
    with suppress(RegistryError):
        rng.choice(changes)()

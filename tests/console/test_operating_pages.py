"""The pages of groups, brokers, configs, access and quotas over HTTP, on a broker."""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from kwire.client.cluster import Cluster, TopicPartition
from kwire.client.configs import ConfigResource, ConfigResourceKind, describe_configs
from kwire.client.errors import BrokerRefused
from kwire.client.groups import commit_offsets, describe_group, fetch_offsets
from kwire.client.producer import Producer
from kwire.client.topics import create_topic
from kwire.testing.hosting.process import BrokerProcess
from tests.console.consoles import ConsoleProcess, visit

HOSTILE = "<img src=x onerror=alert(1)>\u202e'\"&\x07/"


@pytest.fixture(scope="module")
def console(
    shared_broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    with ConsoleProcess(shared_broker.bootstrap, tmp_path_factory.mktemp("console")) as started:
        yield started


@pytest.fixture
def cluster(shared_broker: BrokerProcess) -> Iterator[Cluster]:
    with Cluster(shared_broker.bootstrap, timeout_s=60) as found:
        yield found


@pytest.fixture
def group(cluster: Cluster, unique: str) -> str:
    """A group that has read 4 of 10 records of a topic of its name, and has no members."""
    create_topic(cluster, unique, partitions=1)
    producer = Producer(cluster)
    for _ in range(10):
        producer.send(unique, None, b"value")
    producer.flush()
    commit_offsets(cluster, unique, {TopicPartition(unique, 0): 4})
    return unique


def rows(text: str) -> str:
    return text.partition("<tbody>")[2].partition("</tbody>")[0]


def test_group_list_shows_a_group_with_its_lag(console: ConsoleProcess, group: str) -> None:
    answer = visit(console, f"/groups?q={group}")
    assert answer.status == 200
    assert f'href="/groups/one?id={group}"' in rows(answer.text)
    assert '<span title="6">6</span>' in rows(answer.text)
    shares = rows(visit(console, f"/groups?q={group}&type=share").text)
    assert f'href="/groups/one?id={group}"' not in shares


def test_group_page_shows_progress_members_and_the_command(
    console: ConsoleProcess, group: str
) -> None:
    answer = visit(console, f"/groups/one?id={group}")
    assert answer.status == 200
    assert re.findall(r'<td class="n">([\d,]+)</td>', rows(answer.text)) == ["4", "10", "6"]
    assert f"kwire groups describe {group} -b" in answer.text
    assert f'href="/groups/one?id={group}&amp;tab=members"' in answer.text
    assert "The group has lag and no members: nobody reads." in answer.text
    assert "no members now" in visit(console, f"/groups/one?id={group}&tab=members").text
    assert visit(console, "/groups/one?id=absent").status == 404
    assert visit(console, "/groups/one").status == 400


def test_reset_shows_a_preview_and_then_sets_what_it_showed(
    console: ConsoleProcess, group: str, cluster: Cluster
) -> None:
    preview = visit(console, f"/groups/reset?id={group}&target=offset&value=7&topic={group}")
    assert preview.status == 200
    assert f"kwire groups reset {group} --topic {group} --to-offset 7" in preview.text
    [offsets] = re.findall(r"<textarea[^>]*>(.*?)</textarea>", preview.text, re.DOTALL)
    assert fetch_offsets(cluster, group)[TopicPartition(group, 0)].offset == 4
    done = visit(console, "/groups/reset", {"id": group, "offsets": html.unescape(offsets)})
    assert done.status == 303
    assert "The offsets of 1 partition are reset." in visit(console, done.headers["location"]).text
    assert fetch_offsets(cluster, group)[TopicPartition(group, 0)].offset == 7
    refused = visit(console, "/groups/reset", {"id": group, "offsets": "nonsense"})
    assert "this page did not write" in visit(console, refused.headers["location"]).text
    assert visit(console, f"/groups/reset?id={group}&target=offset&value=x").status == 400


def test_group_is_deleted(console: ConsoleProcess, group: str, cluster: Cluster) -> None:
    done = visit(console, "/groups/delete", {"id": group})
    assert f"Group {group} is deleted." in visit(console, done.headers["location"]).text
    with pytest.raises(BrokerRefused, match="GROUP_ID_NOT_FOUND"):
        describe_group(cluster, group)
    refused = visit(console, "/groups/delete", {"id": group})
    assert "GROUP_ID_NOT_FOUND" in visit(console, refused.headers["location"]).text


def test_names_of_groups_are_shown_as_text_and_reach_the_group(
    console: ConsoleProcess, cluster: Cluster, group: str
) -> None:
    name = f"{HOSTILE}{group}"
    commit_offsets(cluster, name, {TopicPartition(group, 0): 1})
    listed = rows(visit(console, f"/groups?q={group}").text)
    assert "<img" not in listed
    assert "\u202e" not in listed
    assert "\x07" not in listed
    paths = [html.unescape(path) for path in re.findall(r'href="(/groups/one[^"]*)"', listed)]
    assert f"/groups/one?id={quote(name)}" in paths
    answer = visit(console, f"/groups/one?id={quote(name, safe='')}")
    assert answer.status == 200
    assert "<img" not in answer.text
    shown = re.sub(r"<[^>]*>", "", answer.text)  # hidden fields of forms have the name as it is
    assert group in shown
    assert "\u202e" not in shown


def test_history_has_the_lag_of_a_group(console: ConsoleProcess, group: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        answer = visit(console, f"/history?kind=group-lag&name={group}")
        found = json.loads(answer.text)
        assert (answer.status, found["unit"], found["trouble"]) == (200, "records", None)
        if found["lines"]:
            break
        assert time.monotonic() < deadline, "no sample has the group"
        time.sleep(0.2)
    [line] = found["lines"]
    assert line["name"] == "total"
    assert line["points"][-1][1] == 6
    assert visit(console, "/history?kind=unknown").status == 404


def test_topics_show_their_groups_and_lag_after_a_sample(
    console: ConsoleProcess, group: str
) -> None:
    deadline = time.monotonic() + 120
    link = f'href="/groups/one?id={group}"'
    while link not in (listed := rows(visit(console, f"/topics?q={group}&sort=-lag").text)):
        assert time.monotonic() < deadline, "no sample has the group"
        time.sleep(0.2)
    assert '<span title="6">6</span>' in listed
    page = visit(console, f"/topics/{group}").text
    assert link in page
    assert f'data-plot="/history?kind=topic-rate&amp;name={group}"' in page


def test_brokers_and_health_tell_that_all_is_well(console: ConsoleProcess, group: str) -> None:
    del group
    listed = visit(console, "/brokers")
    [path] = set(re.findall(r'href="(/brokers/\d+)"', rows(listed.text)))
    shown = visit(console, path)
    assert shown.status == 200
    assert "Log directories" in shown.text
    health = visit(console, "/health")
    assert "Nothing is wrong" in health.text
    assert "kwire cluster status -b" in health.text
    for unknown in ("/brokers/4711", "/brokers/x", "/brokers/99999999999"):
        assert visit(console, unknown).status in (400, 404)


def test_configs_are_shown_checked_set_and_removed(
    console: ConsoleProcess, group: str, cluster: Cluster
) -> None:
    where = {"kind": "topic", "name": group, "config": "retention.ms"}
    assert "retention.ms" not in rows(visit(console, f"/configs?kind=topic&name={group}").text)
    assert "retention.ms" in rows(visit(console, f"/configs?kind=topic&name={group}&all=yes").text)
    edit = visit(console, f"/configs/edit?kind=topic&name={group}&config=retention.ms")
    assert edit.status == 200
    assert f"kwire configs alter topic {group} --set retention.ms=" in edit.text

    def value() -> str | None:
        topic = ConfigResource(ConfigResourceKind.TOPIC, group)
        return describe_configs(cluster, topic, ["retention.ms"])[0].value

    before = value()
    checked = visit(console, "/configs/change", {**where, "value": "123456", "action": "check"})
    assert "The broker accepts" in visit(console, checked.headers["location"]).text
    assert value() == before
    refused = visit(console, "/configs/change", {**where, "value": "soon", "action": "set"})
    assert "INVALID_CONFIG" in visit(console, refused.headers["location"]).text
    visit(console, "/configs/change", {**where, "value": "123456", "action": "set"})
    assert value() == "123456"
    assert "123456" in rows(visit(console, f"/configs?kind=topic&name={group}").text)
    visit(console, "/configs/change", {**where, "action": "delete"})
    assert value() == before
    for kind in ("", "broker", "topic", "group", "client-metrics"):
        assert visit(console, f"/configs?kind={kind}").status == 200
    assert visit(console, "/configs?kind=broker&name=&all=yes").status == 200


def test_quotas_are_set_shown_and_removed(console: ConsoleProcess, unique: str) -> None:
    where = {"user": unique, "quota": "producer_byte_rate"}
    done = visit(console, "/quotas/set", {**where, "value": "2000000"})
    shown = visit(console, done.headers["location"]).text
    assert f"kwire quotas set --user {unique} producer_byte_rate=2000000" in html.unescape(shown)
    assert unique in rows(visit(console, f"/quotas?q={unique}").text)
    visit(console, "/quotas/remove", where)
    assert unique not in rows(visit(console, f"/quotas?q={unique}").text)
    refused = visit(console, "/quotas/set", {**where, "value": "much"})
    assert "is not a number" in visit(console, refused.headers["location"]).text


def test_users_get_and_lose_passwords(console: ConsoleProcess, unique: str) -> None:
    where = {"name": unique, "mechanism": "SCRAM-SHA-512"}
    done = visit(console, "/users/password", {**where, "password": "hunter2"})
    assert "hunter2" not in visit(console, done.headers["location"]).text
    assert "SCRAM-SHA-512" in rows(visit(console, f"/users?q={unique}").text)
    visit(console, "/users/remove", where)
    assert unique not in rows(visit(console, f"/users?q={unique}").text)


def test_rules_without_an_authorizer_are_explained(console: ConsoleProcess) -> None:
    answer = visit(console, "/acls")
    assert (answer.status, "have no authorizer" in answer.text) == (200, True)
    refused = visit(console, "/acls/add", {"resource": "topic", "name": "a", "principal": "eve"})
    assert "a principal is like" in visit(console, refused.headers["location"]).text


def test_pages_of_the_control_tell_that_there_is_none(console: ConsoleProcess) -> None:
    for path in ("/control", "/requests"):
        answer = visit(console, path)
        assert (answer.status, "without --control" in answer.text) == (400, True)
    assert 'href="/control"' not in visit(console, "/topics").text

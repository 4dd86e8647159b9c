"""The action that starts a broker in a job of GitHub Actions: its steps, run as a runner does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from kwire.client.cluster import Cluster
from kwire.client.producer import Producer
from kwire.testing import free_port
from tests.inside import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
ACTION = ROOT / ".github" / "actions" / "kwire"
NODE = shutil.which("node")
KWIRE = ROOT / ".venv" / "bin" / "kwire"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NODE is None or not KWIRE.exists(), reason="Node.js or .venv is missing"),
]


class Runner:
    """The files and variables that a runner gives to the steps of a job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = {
            name: folder / name
            for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STATE", "GITHUB_PATH")
        }
        for file in self.files.values():
            file.touch()

    def set_by_steps(self, name: str) -> dict[str, str]:
        """What steps have written into one of the files."""
        text = self.files[name].read_text()
        found = re.findall(r"^(\S+)<<(\S+)\n(.*?)\n\2$", text, re.MULTILINE | re.DOTALL)
        return {key: value for key, _, value in found}

    def run(self, *command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a command of a step with what earlier steps have set."""
        environment = {
            **{name: text for name, text in os.environ.items() if not name.startswith("KWIRE")},
            **{name: str(file) for name, file in self.files.items()},
            "RUNNER_TEMP": str(self.folder),
            **self.set_by_steps("GITHUB_ENV"),
            **{f"STATE_{key}": value for key, value in self.set_by_steps("GITHUB_STATE").items()},
            **variables,
        }
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False,
        )  # fmt: skip

    def node(self, step: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step of the action with inputs, of which the others have their defaults."""
        defaults = {
            name: str(declared.get("default", ""))
            for name, declared in yaml.safe_load((ACTION / "action.yml").read_text())[
                "inputs"
            ].items()
        }
        given = {f"INPUT_{name.upper()}": text for name, text in (defaults | inputs).items()}
        assert NODE is not None
        return self.run(NODE, ACTION / step, **given)


def test_action_starts_a_broker_with_topics_and_state_and_stops_it(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    state = tmp_path / "state.yaml"
    state.write_text("topics:\n  payments:\n    partitions: 2\n")
    port = free_port()
    started = runner.node(
        "main.js", command=str(KWIRE), port=str(port), settings="num.partitions=4\n",
        topics="orders 3\nclicks\n", state=str(state),
    )  # fmt: skip
    assert started.returncode == 0, started.stdout + started.stderr
    servers = runner.set_by_steps("GITHUB_OUTPUT")["bootstrap-servers"]
    assert servers == f"127.0.0.1:{port}"
    assert runner.set_by_steps("GITHUB_ENV")["KWIRE_BOOTSTRAP_SERVERS"] == servers
    with Cluster(servers) as cluster:
        found = {
            name: len(cluster.topic(name).partitions) for name in ("orders", "clicks", "payments")
        }
        assert found == {"orders": 3, "clicks": 1, "payments": 2}
        producer = Producer(cluster)
        producer.send("orders", b"a record")
        producer.flush()

    collected = tmp_path / "collected"
    done = runner.run(ACTION / "collect" / "collect.sh", collected, KWIRE_COMMAND=str(KWIRE))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "payments" in (collected / "state.yaml").read_text()
    assert "a record" in "".join(path.read_text() for path in (collected / "records").iterdir())
    assert (collected / "broker.log").stat().st_size > 0

    stopped = runner.node("post.js")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    pid = int(runner.set_by_steps("GITHUB_STATE")["pid"])
    assert not is_running(pid)
    again = runner.node("post.js")
    assert again.returncode == 1
    assert "::error::the broker ended before the job did" in again.stdout


def is_running(pid: int) -> bool:
    """Whether a process runs.  The broker's parent has ended, so nobody may have waited for it."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_action_fails_with_the_log_if_the_broker_does_not_start(tmp_path: Path) -> None:
    runner = Runner(tmp_path)
    failed = runner.node(
        "main.js", command=str(KWIRE), port=str(free_port()), settings="no.such", wait="1"
    )
    assert failed.returncode == 1
    assert "::error::settings: 'no.such' is not like NAME=VALUE" in failed.stdout
    for wait_s in ("1", "10", "60"):  # a busy machine takes longer to start a process
        failed = runner.node(
            "main.js",
            command=str(KWIRE),
            port=str(free_port()),
            settings="num.partitions=x",
            wait=wait_s,
        )
        assert failed.returncode == 1
        if "num.partitions" in failed.stdout:
            break
    else:
        pytest.fail(f"the log does not name num.partitions: {failed.stdout}")
    assert "::error::" in failed.stdout


def test_action_declares_the_files_and_inputs_that_its_steps_use() -> None:
    declared = yaml.safe_load((ACTION / "action.yml").read_text())
    assert all((ACTION / declared["runs"][step]).exists() for step in ("main", "post"))
    used = set(re.findall(r'\b(?:input|lines)\("(\w+)"\)', (ACTION / "main.js").read_text()))
    assert used == set(declared["inputs"])
    collect = yaml.safe_load((ACTION / "collect" / "action.yml").read_text())
    assert "collect.sh" in collect["runs"]["steps"][0]["run"]


def test_example_of_the_page_gives_inputs_that_the_actions_declare() -> None:
    page = (ROOT / "docs" / "github-actions.md").read_text()
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    own = [step for step in yaml.safe_load(block)["steps"] if "OWNER" in step.get("uses", "")]
    assert len(own) == 2
    for step in own:
        folder = ROOT / step["uses"].removeprefix("OWNER/kwire/").removesuffix("@main")
        declared = yaml.safe_load((folder / "action.yml").read_text())["inputs"]
        assert set(step.get("with", {})) <= set(declared)
    for name in yaml.safe_load((ACTION / "action.yml").read_text())["inputs"]:
        assert f"| `{name}` |" in page

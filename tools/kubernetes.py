"""Checks docker/kubernetes by Helm and by Kubernetes' API description (`make kubernetes`).

Helm, which Go builds once, checks the chart and renders it with the values of RENDERED, of REFUSED,
and of WRITTEN.  The manifests of WRITTEN are files: they must be what Helm renders, and
`python -m tools.kubernetes --write` writes them.

The API description comes with the Go module of Kubernetes, which `go` downloads once.  A field that
it does not have is an error, as with `kubectl apply --validate=strict`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml
from jsonschema import Draft4Validator

from tools.go_programs import built

ROOT: Final = Path(__file__).resolve().parent.parent
MANIFESTS: Final = ROOT / "docker" / "kubernetes"
CHART: Final = MANIFESTS / "chart"
HELM: Final = "helm.sh/helm/v3/cmd/helm@v3.22.0"
MODULE: Final = "k8s.io/kubernetes@v1.34.1"
ANY_OF_BOTH: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
KINDS: Final = "x-kubernetes-group-version-kind"

BY_CHART: Final = (
    "The chart renders this file: change the chart, and run python -m tools.kubernetes --write"
)
ZOOKEEPER: Final = {"replicas": 3, "zookeeper": {"enabled": True}}
KRAFT: Final = {"replicas": 3, "kraft": {"controllers": "controller-0:9093,controller-1:9093"}}
WRITTEN: Final[dict[str, tuple[tuple[str, ...], dict[str, Any]]]] = {
    "cluster.yaml": (
        ("Three brokers on a ZooKeeper:  kubectl apply -f docker/kubernetes/cluster.yaml",),
        ZOOKEEPER,
    ),
    "cluster-kraft.yaml": (
        (
            "Three brokers beside Apache Kafka's controllers, whose addresses you put below:",
            "kubectl apply -f docker/kubernetes/cluster-kraft.yaml",
        ),
        KRAFT,
    ),
}
"""Manifests that the chart renders, by file: what is said about them, and the values."""

EXAMPLE: Final = re.compile(r"^```yaml\n(# helm install .*?)^```$", re.MULTILINE | re.DOTALL)
"""The values that docs/kubernetes.md shows."""

RENDERED: Final[dict[str, dict[str, Any]]] = {
    "one broker": {},
    "one broker without metrics": {"metrics": {"enabled": False}},
    "three on one ZooKeeper that is there": {
        "replicas": 3,
        "zookeeper": {"connect": "zookeeper:2181"},
    },
    "three on a ZooKeeper of two, with a chroot": {
        "replicas": 3,
        "zookeeper": {"connect": "zookeeper-0.zookeeper:2181,zookeeper-1.zookeeper:2181/kwire"},
    },
    "three beside a static quorum": {
        "replicas": 3,
        "kraft": {"controllers": "100@controller:9093", "clusterId": "a3dpcmUtYmVzaWRlLWtyYQ"},
    },
    "all other values": ZOOKEEPER | {
        "fullnameOverride": "events",
        "firstBrokerId": 10,
        "image": {"repository": "registry.example/kwire", "tag": "1", "pullSecrets": ["pull"]},
        "settings": {"log.segment.bytes": 104857600, "delete.topic.enable": False},
        "extraEnv": [{"name": "KAFKA_LOG4J_ROOT_LOGLEVEL", "value": "DEBUG"}],
        "logFormat": "plain",
        "storage": {"size": "1Ti", "className": "fast"},
        "metrics": {"annotations": True},
        "resources": {},
        "minReadySeconds": 0,
        "podDisruptionBudget": False,
        "podAntiAffinity": "required",
        "podAnnotations": {"example.org/team": "events"},
        "podLabels": {"team": "events"},
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    },
}  # fmt: skip
"""Values that the chart renders into valid manifests, by what they are."""

REFUSED: Final[dict[str, dict[str, Any]]] = {
    "replicas is 3, and brokers that are in no cluster would be 3 clusters": {"replicas": 3},
    "zookeeper.connect names another one: set one of them": {
        "zookeeper": {"enabled": True, "connect": "zookeeper:2181"}
    },
    "kraft.controllers and a ZooKeeper are both set": KRAFT | {"zookeeper": {"enabled": True}},
    "kraft.clusterId is set without kraft.controllers": {
        "kraft": {"clusterId": "a3dpcmUtYmVzaWRlLWtyYQ"}
    },
    "topics.minInsyncReplicas is 4, and topics have 3 replicas": ZOOKEEPER
    | {"topics": {"minInsyncReplicas": 4}},
    "topics.replicationFactor is 3, and replicas, the number of brokers, is 1": {
        "zookeeper": {"enabled": True}
    },
    "settings has log.dirs, which the chart sets itself: the data are in the volume": {
        "settings": {"log.dirs": "/data"}
    },
    "additional properties 'replica' not allowed": {"replica": 3},
}
"""Values that the chart refuses, by what the sentence has."""


def description() -> dict[str, Any]:
    """The API description of Kubernetes, whose types take no field that they do not declare."""
    command = ["go", "mod", "download", "-json", MODULE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    folder = Path(json.loads(done.stdout)["Dir"])
    found: dict[str, Any] = json.loads((folder / "api/openapi-spec/swagger.json").read_text())
    for definition in found["definitions"].values():
        if "properties" in definition:
            definition.setdefault("additionalProperties", False)
    for name in (ANY_OF_BOTH, QUANTITY):  # numbers or texts, which the description calls texts
        found["definitions"][name] = {"type": ["integer", "number", "string"]}
    return found


def problems(manifest: dict[str, Any], api: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a manifest, as sentences."""
    group, _, version = manifest.get("apiVersion", "").rpartition("/")
    wanted = {"group": group, "version": version, "kind": manifest.get("kind")}
    name = next((n for n, d in api["definitions"].items() if wanted in d.get(KINDS, [])), None)
    if name is None:
        yield f"Kubernetes has no kind {wanted['kind']} in {manifest.get('apiVersion')}"
        return
    schema = {"$ref": f"#/definitions/{name}", "definitions": api["definitions"]}
    for error in Draft4Validator(schema).iter_errors(manifest):
        yield f"{'.'.join(map(str, error.absolute_path))}: {error.message[:300]}"


def helm(*words: str, values: dict[str, Any] | None = None) -> subprocess.CompletedProcess[str]:
    """What Helm does with these words, and with the values in a file of standard input."""
    given = [] if values is None else ["--values", "-"]
    return subprocess.run(
        [built(HELM), *words, *given],
        input=None if values is None else json.dumps(values),
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def rendered(
    values: dict[str, Any], chart: Path = CHART, *options: str
) -> subprocess.CompletedProcess[str]:
    """The chart with these values, as the release `kwire`."""
    version = MODULE.partition("@v")[2]
    words = ("template", "kwire", str(chart), "--kube-version", version, *options)
    return helm(*words, values=values)


def invalid(name: str, text: str, api: dict[str, Any]) -> bool:
    """Print what is wrong with the manifests of a text; returns whether something is."""
    failed = False
    for manifest in yaml.safe_load_all(text):
        what = f"{name}: {manifest['kind']} {manifest['metadata']['name']}"
        found = list(problems(manifest, api))
        failed = failed or bool(found)
        print(what, *(found or ["is valid"]), sep="\n  ")
    return failed


def notes(values: dict[str, Any]) -> str:
    """What Helm prints after an installation with these values.

    `helm template` renders no notes, so they become a manifest in a copy of the chart.
    """
    with TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(CHART, Path(folder, "chart")))
        templates = copy / "templates"
        text = (templates / "NOTES.txt").read_text()
        (templates / "_notes.tpl").write_text(f'{{{{ define "notes" }}}}{text}{{{{ end }}}}')
        (templates / "notes.yaml").write_text('text: {{ include "notes" . | quote }}\n')
        done = rendered(values, copy, "--show-only", "templates/notes.yaml")
    if done.returncode:
        raise SystemExit(f"kubernetes: NOTES.txt: {done.stderr}")
    found: str = yaml.safe_load(done.stdout)["text"]
    return found


def notes_problems() -> Iterator[str]:
    """What is wrong with the notes, as sentences."""
    values = ZOOKEEPER | {"fullnameOverride": "events", "firstBrokerId": 10}
    text = notes(values)
    pods = [f"events-{ordinal}.events-pods.default.svc:9092" for ordinal in (10, 11, 12)]
    for address in ("events.default.svc:9092", *pods):
        if f"  {address}\n" not in text:
            yield f"NOTES.txt does not have {address}: {text}"


def chart_problems(api: dict[str, Any]) -> Iterator[str]:
    """What is wrong with the chart, as sentences."""
    lint = helm("lint", "--strict", str(CHART))
    if lint.returncode:
        yield f"helm lint: {lint.stdout}{lint.stderr}"
    (example,) = EXAMPLE.findall((ROOT / "docs" / "kubernetes.md").read_text())
    shown = {"the example of docs/kubernetes.md": yaml.safe_load(example)}
    for name, values in (RENDERED | shown).items():
        done = rendered(values)
        if done.returncode:
            yield f"{name}: {done.stderr}"
        elif invalid(f"chart, {name}", done.stdout, api):
            yield f"{name}: a manifest is not valid"
    for sentence, values in REFUSED.items():
        done = rendered(values)
        if done.returncode == 0 or sentence not in done.stderr:
            yield f"{values} is not refused with {sentence!r}, but: {done.stderr or 'rendered'}"
        else:
            print(f"chart: {json.dumps(values)}\n  is refused: {sentence}")


def written(name: str) -> str:
    """The text of a manifest that the chart renders."""
    about, values = WRITTEN[name]
    done = rendered(values)
    if done.returncode:
        raise SystemExit(f"kubernetes: {name}: {done.stderr}")
    manifests = "".join(
        line for line in done.stdout.splitlines(True) if not line.startswith("# Source:")
    )
    return "".join(f"# {line}\n" for line in (*about, BY_CHART)) + manifests


def main(words: Sequence[str]) -> int:
    """Check everything, and first write the manifests if the option says so; 1 if one is wrong."""
    if list(words) not in ([], ["--write"]):
        raise SystemExit("kubernetes: the only option is --write")
    wrong: list[str] = []
    for name in WRITTEN:
        text = written(name)
        if words:
            (MANIFESTS / name).write_text(text)
        elif (MANIFESTS / name).read_text() != text:
            wrong.append(
                f"{name} is not what the chart renders: python -m tools.kubernetes --write"
            )
    api = description()
    wrong += (
        f"{path.name}: a manifest is not valid"
        for path in sorted(MANIFESTS.glob("*.yaml"))
        if invalid(str(path.relative_to(ROOT)), path.read_text(), api)
    )
    wrong += chart_problems(api)
    wrong += notes_problems()
    print(*wrong, sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

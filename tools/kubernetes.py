"""Checks the manifests of docker/kubernetes by Kubernetes' API description (`make kubernetes`).

The description comes with the Go module of Kubernetes, which `go` downloads once.  A field that it
does not have is an error, as with `kubectl apply --validate=strict`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft4Validator

ROOT: Final = Path(__file__).resolve().parent.parent
MANIFESTS: Final = ROOT / "docker" / "kubernetes"
MODULE: Final = "k8s.io/kubernetes@v1.34.1"
ANY_OF_BOTH: Final = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
QUANTITY: Final = "io.k8s.apimachinery.pkg.api.resource.Quantity"
KINDS: Final = "x-kubernetes-group-version-kind"


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


def main() -> int:
    """Check all manifests; returns 1 if one is wrong."""
    api, failed = description(), False
    for path in sorted(MANIFESTS.glob("*.yaml")):
        for manifest in yaml.safe_load_all(path.read_text()):
            what = f"{path.relative_to(ROOT)}: {manifest['kind']} {manifest['metadata']['name']}"
            found = list(problems(manifest, api))
            failed = failed or bool(found)
            print(what, *(found or ["is valid"]), sep="\n  ")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""Helm's output for the chart of deploy/helm, as objects."""

import functools
import os
import pathlib
import shutil
import subprocess

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/grpc-idempotency"
HELM = "helm.sh/helm/v3/cmd/helm@v3.16.4"
# A helm that Go has built renders for Kubernetes 1.20 by default.
KUBERNETES = "1.29.0"


@functools.cache
def helm():
    """The path of a helm: of this machine, or built by Go once, in the build folder."""
    if found := shutil.which("helm"):
        return found
    tools = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"]) / "tools"
    if not (tools / "helm").exists():
        subprocess.run(["go", "install", HELM], env={**os.environ, "GOBIN": str(tools)}, check=True)
    return str(tools / "helm")


def run(*arguments, values=None):
    """Helm's exit status and what it printed, with `values` as a file of values."""
    done = subprocess.run(
        [helm(), *arguments, *(["--values", "-"] if values is not None else [])],
        input=yaml.safe_dump(values) if values is not None else None, capture_output=True,
        text=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


def rendered(values):
    """The objects, by (kind, name); those of hooks as well."""
    status, out, err = run("template", "shop", CHART, "--kube-version", KUBERNETES, values=values)
    if status != 0:
        raise AssertionError(err)
    objects = [document for document in yaml.safe_load_all(out) if document]
    by_name = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(by_name) == len(objects), "two objects have one name"
    return by_name

"""A real Envoy for a test: started with a configuration, ready, and ended with the test."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import urllib.request

from .child import Child

# Installed side by side by scripts/install-dependencies.sh.
OLDEST = "1.37.0"
NEWEST = "1.40.0"
VERSIONS = (OLDEST, NEWEST)

READY_WITHIN_S = 60


class NotInstalled(Exception):
    """The machine has no Envoy of this version."""


def binary(version=NEWEST):
    """The path of Envoy's binary."""
    found = shutil.which(f"envoy-{version}")
    if not found:
        raise NotInstalled(f"envoy-{version} is missing: scripts/install-dependencies.sh test")
    return found


def minor(version):
    """As --envoy_version wants it: 1.40 for 1.40.0."""
    return version.rpartition(".")[0]


def validate(config, version=NEWEST, folder=None):
    """What Envoy finds wrong with a configuration; empty if nothing. Relative paths in it are
    below `folder`."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(config)
        file.flush()
        done = subprocess.run(
            [binary(version), "--mode", "validate", "--log-level", "warning", "-c", file.name],
            cwd=folder, capture_output=True, text=True, check=False, timeout=READY_WITHIN_S)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _get(url):
    # Without the proxy that the environment may name.
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as page:
        return page.read().decode()


class Envoy:
    """`config` has port 0 for its listener and its administration page, or those that it shall
    have."""

    def __init__(self, config, version=NEWEST, folder=None, concurrency=1):
        self._folder = tempfile.TemporaryDirectory()
        own = pathlib.Path(self._folder.name)
        (own / "envoy.yaml").write_text(config)
        command = [binary(version), "-c", own / "envoy.yaml", "--use-dynamic-base-id",
                   "--concurrency", concurrency, "--log-level", "warning",
                   "--component-log-level", "main:info", "--drain-time-s", "1",
                   "--parent-shutdown-time-s", "2", "--admin-address-path", own / "admin"]
        try:
            self.child = Child(command, "starting main dispatch loop", READY_WITHIN_S, cwd=folder,
                               stderr=subprocess.STDOUT)
        except BaseException:
            self._folder.cleanup()
            raise
        self.admin = (own / "admin").read_text().strip()
        listeners = json.loads(_get(f"http://{self.admin}/listeners?format=json"))
        address = listeners["listener_statuses"][0]["local_address"]["socket_address"]
        self.port = address["port_value"]
        self.address = f"{address['address']}:{self.port}"

    def stats(self, prefix):
        """Envoy's counters and gauges whose names begin so."""
        page = json.loads(_get(f"http://{self.admin}/stats?format=json&filter=^{prefix}"))
        return {one["name"]: one["value"] for one in page["stats"] if "name" in one}

    def kill(self):
        """Ends it at once, as a crash."""
        self.child.kill()

    def close(self):
        """Ends it, and removes its files."""
        self.child.close()
        self._folder.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def ctl(*arguments):
    """What `idempotencyctl envoy-config` of this build prints: (status, stdout, stderr)."""
    program = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"]) / "bin/idempotencyctl"
    done = subprocess.run([program, "envoy-config", *arguments], capture_output=True, text=True,
                          check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr


def ctl_text(*arguments):
    """The configuration that the command writes."""
    status, out, err = ctl(*arguments)
    if status != 0:
        raise AssertionError(err)
    return out


def configuration(*arguments):
    """The same for a test: on free ports."""
    return ctl_text("--listen=127.0.0.1:0", "--admin=127.0.0.1:0", *arguments)

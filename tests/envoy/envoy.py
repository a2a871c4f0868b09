"""A real Envoy for a test: started with a configuration, ready, and ended with the test."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

# Installed side by side by scripts/install-dependencies.sh.
OLDEST = "1.37.0"
NEWEST = "1.40.0"
VERSIONS = (OLDEST, NEWEST)

READY_WITHIN_S = 60
ENDS_WITHIN_S = 20


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
    """`config` has port 0 for its listener and its administration page."""

    def __init__(self, config, version=NEWEST, folder=None, log=None, concurrency=1):
        self._folder = tempfile.TemporaryDirectory()
        own = pathlib.Path(self._folder.name)
        (own / "envoy.yaml").write_text(config)
        self.log = pathlib.Path(log) if log else own / "envoy.log"
        self._command = [binary(version), "-c", str(own / "envoy.yaml"), "--use-dynamic-base-id",
                         "--concurrency", str(concurrency), "--log-level", "warning",
                         "--drain-time-s", "1", "--parent-shutdown-time-s", "2",
                         "--admin-address-path", str(own / "admin")]
        self._admin_file = own / "admin"
        with open(self.log, "ab") as log_file:
            self.process = subprocess.Popen(self._command, cwd=folder, stdout=log_file,
                                            stderr=log_file)
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self):
        deadline = time.monotonic() + READY_WITHIN_S
        while not self._is_ready():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"Envoy did not start:\n{self.log.read_text()}")
            time.sleep(0.02)  # polls the page; Envoy signals its readiness in no other way
        listeners = json.loads(_get(f"http://{self.admin}/listeners?format=json"))
        address = listeners["listener_statuses"][0]["local_address"]["socket_address"]
        self.port = address["port_value"]
        self.address = f"{address['address']}:{self.port}"

    def _is_ready(self):
        if not self._admin_file.exists() or not self._admin_file.read_text():
            return False
        self.admin = self._admin_file.read_text().strip()
        try:
            return _get(f"http://{self.admin}/ready").strip() == "LIVE"
        except OSError:
            return False

    def stats(self, prefix):
        """Envoy's counters and gauges whose names begin so."""
        page = json.loads(_get(f"http://{self.admin}/stats?format=json&filter=^{prefix}"))
        return {one["name"]: one["value"] for one in page["stats"] if "name" in one}

    def kill(self):
        """Ends it at once, as a crash."""
        self.process.kill()
        self.process.wait()

    def close(self):
        """Ends it, and removes its files."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.kill()
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


def configuration(*arguments):
    """The configuration that the command writes for a test: on free ports."""
    status, out, err = ctl("--listen=127.0.0.1:0", "--admin=127.0.0.1:0", *arguments)
    if status != 0:
        raise AssertionError(err)
    return out

"""The key ring of a daemon, by idempotencyctl."""

import json
import subprocess
import time


class Idempotencyctl:

    def __init__(self, program, folder):
        self._program = program
        self._folder = folder

    def key_ring(self):
        """A file whose key seals at once."""
        ring = self._folder / "keyring"
        self._run("keyring", "generate", f"--file={ring}")
        return ring

    def add_key(self, ring, daemon):
        """A key that seals at once, also at the daemon, which reads the file once a second."""
        key = self._sealing_key(daemon)
        self._run("keyring", "generate", f"--file={ring}", "--seals_in=0s")
        deadline = time.monotonic() + 60
        while self._sealing_key(daemon) == key:
            if time.monotonic() > deadline:
                raise RuntimeError("the daemon does not seal under the new key")
            time.sleep(0.1)

    def _sealing_key(self, daemon):
        return self.reseal(daemon, "--dry_run", name_space="empty")["sealing_key_id"]

    def reseal(self, daemon, how="--yes", name_space="bench"):
        """The sums of `idempotencyctl keyring reseal`."""
        return json.loads(self._run(
            "keyring", "reseal", f"--namespace={name_space}", "--reason=bench", how, "--json",
            f"--address={daemon.address}"))

    def _run(self, *words):
        done = subprocess.run([self._program, *words], check=False, text=True,
                              capture_output=True, timeout=600)
        if done.returncode != 0:
            raise RuntimeError(f"idempotencyctl {words}: {done.stderr.strip()}")
        return done.stdout

"""Runs commands in a temporary folder of their own, and ends every process that they leave
behind."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time


class Sandbox:
    """Use it with `with`. Several may run commands at a time, each in its own."""

    def __init__(self, prefix):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=prefix))
        # Postgres runs as its own user, and passes through here.
        self.folder.chmod(0o711)
        self._temporary = self.folder / "tmp"
        self._temporary.mkdir()
        self._environment = {}
        self._process = None
        self._ends_at = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end_leftovers()
        shutil.rmtree(self.folder, ignore_errors=True)

    def set_environment(self, **variables):
        """Of every later command."""
        self._environment = variables

    def end_at(self, instant):
        """No command continues beyond this instant of time.monotonic()."""
        self._ends_at = instant

    def stop(self):
        """From another thread: running commands are ended, and no other begins."""
        self._ends_at = 0
        process = self._process
        if process is not None and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def run(self, command, limit):
        """(exit status or None for one that was cut off, its output)"""
        if self._ends_at is not None:
            limit = min(limit, self._ends_at - time.monotonic())
            if limit <= 0:
                return None, ""
        environment = dict(os.environ, TMPDIR=str(self._temporary),
                           GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS="100",
                           **self._environment)
        with tempfile.TemporaryFile() as output, \
                subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, env=environment, cwd=self.folder,
                                 start_new_session=True) as process:
            self._process = process
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                self._process = None
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            return status, output.read().decode(errors="replace")

    def end_leftovers(self):
        """The processes that a command that was cut off leaves running: identified by their
        folder, or by the folder for their temporary files."""
        given = f"\0TMPDIR={self._temporary}\0".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                inside = f"{os.readlink(process / 'cwd')}/".startswith(f"{self.folder}/")
                if inside or given in b"\0" + (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
            except OSError:
                continue

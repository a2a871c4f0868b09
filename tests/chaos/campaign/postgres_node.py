"""One Postgres server of a pair."""

import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import time

from bench.comparison.process import Process

# Every setting that makes a commit durable is on. Senders and receivers detect soon that the
# other is unreachable: the run does not wait for them.
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "64MB",
    # Removed with the folder: the files that a crash leaves in /dev/shm would stay there.
    "dynamic_shared_memory_type": "mmap",
    # A session whose client has given up stays while its commit waits for the standby.
    "max_connections": "600",
    "wal_level": "replica",
    "hot_standby": "on",
    "max_wal_senders": "10",
    # The kept log fits on WAL_DISK_MB with room to spare, in a run of any length.
    "wal_keep_size": "192MB",
    "min_wal_size": "32MB",
    "max_wal_size": "256MB",
    "wal_sender_timeout": "4s",
    "wal_receiver_timeout": "4s",
    "wal_retrieve_retry_interval": "200ms",
    "log_min_messages": "warning",
    "lc_messages": "C",
}
_READY = "database system is ready to accept"
# The size of a disk for the write-ahead log alone.
WAL_DISK_MB = 768
# A long run's tables are some gigabytes.
_COPIED_WITHIN = 300
_NO_ROOM = "No space left on device"


def _binaries():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"),
                   key=lambda path: int(path.split("/")[4]))
    if not found:
        raise RuntimeError("no Postgres under /usr/lib/postgresql: "
                           "run scripts/install-dependencies.sh")
    return pathlib.Path(found[-1]).parent


def _children(pid):
    found = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [int(child) for child in found.split()]


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class PostgresNode:
    """Listens on a unix socket in its folder. Empty until init() or copy_from()."""

    def __init__(self, folder, number, upstream, wal_disk=None):
        """`upstream` is the (host, port) from which it replicates, as a standby. `wal_disk` is
        the
        SmallDisk for its write-ahead log alone."""
        self.number = number
        self.folder = pathlib.Path(folder) / f"pg{number}"
        self.wal_disk = wal_disk
        self._upstream = upstream
        self._bin = _binaries()
        # initdb and the server refuse to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        self._server = None
        self._starts = 0
        self._make_folder()

    def _make_folder(self):
        folders = [self.folder]
        if self.wal_disk is not None:
            folders.append(self._wal)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            if self._user is not None:
                account = pwd.getpwnam(self._user)
                os.chown(folder, account.pw_uid, account.pw_gid)

    @property
    def _wal(self):
        return self.wal_disk.folder / "wal"

    def _wal_option(self):
        return [] if self.wal_disk is None else [f"--waldir={self._wal}"]

    @property
    def running(self):
        return self._server is not None and self._server.running

    def _run(self, program, *arguments):
        command = [str(self._bin / program), *arguments]
        if self._user is not None:
            command = ["setpriv", f"--reuid={self._user}", f"--regid={self._user}",
                       "--init-groups", *command]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_COPIED_WITHIN)

    def init(self):
        self._run("initdb", "--pgdata", str(self.folder / "data"), "--username=postgres",
                  "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync",
                  *self._wal_option())
        self.start()

    def copy_from(self, primary):
        """Starts again as a standby of `primary`; returns once it answers reads."""
        self._make_folder()
        self._run("pg_basebackup", "-h", str(primary.folder), "-U", "postgres", "-D",
                  str(self.folder / "data"), "-X", "stream", "--checkpoint=fast", "--no-sync",
                  *self._wal_option())
        signal_file = self.folder / "data" / "standby.signal"
        signal_file.touch()
        if self._user is not None:
            shutil.chown(signal_file, self._user, self._user)
        self.start()

    def start(self):
        host, port = self._upstream
        settings = {**_SETTINGS, "primary_conninfo":
                    f"host={host} port={port} user=postgres application_name=standby "
                    "connect_timeout=2 sslmode=disable gssencmode=disable"}
        arguments = [argument for name, value in settings.items()
                     for argument in ("-c", f"{name}={value}")]
        self._starts += 1
        # It logs to stderr; the expected lines are read from stdout.
        self._server = Process(
            ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", str(self._bin / "postgres"), "-D",
             str(self.folder / "data"), "-k", str(self.folder), "-c", "log_line_prefix=%m ",
             *arguments],
            self.folder.parent / f"pg{self.number}-{self._starts:02}.log", self._user)
        self._server.wait_for_line(_READY)

    def stop_immediate(self):
        """As after a crash of the machine, except for the disk's cache."""
        if self._server is not None:
            self._server.stop(signal.SIGQUIT)
            self._server = None

    def kill_9(self, limit=30):
        """All of its processes at once, in the middle of anything; returns once none is left."""
        if self._server is None:
            return
        pids = [self._server.pid, *_children(self._server.pid)]
        for pid in pids:
            _kill(pid)
        self._server.stop(signal.SIGKILL)
        self._server = None
        deadline = time.monotonic() + limit
        # The next server refuses to start while one is there.
        while any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids):
            if time.monotonic() > deadline:
                raise RuntimeError(f"processes of pg{self.number} survived a kill -9")
            time.sleep(0.01)

    def run_out_of_disk(self, limit=20):
        """Fills the log's disk; returns once a write has failed because of that."""
        before = self._server.log.stat().st_size
        self.wal_disk.fill()
        deadline = time.monotonic() + limit
        while _NO_ROOM not in self._logged_since(before):
            if time.monotonic() > deadline:
                raise RuntimeError(f"pg{self.number} did not miss the room that its disk lacks")
            # The rest of existing segments.
            self._try_sql("SELECT pg_switch_wal()")
            time.sleep(0.05)

    def recover_with_disk(self, limit=60):
        """Frees the room; returns once writes succeed, on a server that was started again
        if the first one had ended."""
        self.wal_disk.empty()
        deadline = time.monotonic() + limit
        while self._try_sql("SELECT pg_is_in_recovery()") != "f":
            if not self.running:
                self.stop_immediate()
                self.start()
            elif time.monotonic() > deadline:
                raise RuntimeError(f"pg{self.number} did not recover when it had room again")
            time.sleep(0.05)

    def _logged_since(self, place):
        with open(self._server.log, "rb") as log:
            log.seek(place)
            return log.read().decode(errors="replace")

    def _try_sql(self, statement):
        """As sql(); None if it failed."""
        try:
            return self.sql(statement, limit=5)
        except (RuntimeError, subprocess.TimeoutExpired):
            return None

    def sql(self, statement, database="postgres", limit=30):
        """Runs it; returns psql's unaligned output."""
        done = subprocess.run(
            [str(self._bin / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h",
             str(self.folder), "-U", "postgres", "-d", database, "-f", "-"],
            input=statement, capture_output=True, text=True, timeout=limit, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"SQL failed: {done.stderr.strip()}\n{statement[:200]}")
        return done.stdout.strip()

    def wait_until(self, condition, limit=60):
        """Until the SQL expression is true."""
        deadline = time.monotonic() + limit
        while self.sql(f"SELECT coalesce(({condition})::text, 'false')") != "true":
            if time.monotonic() > deadline:
                raise RuntimeError(f"did not come true: {condition}")
            time.sleep(0.05)

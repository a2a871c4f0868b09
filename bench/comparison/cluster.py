"""A private Postgres server."""

import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import urllib.parse

from .counts import voluntary_switches
from .process import Process, family_cpu_seconds

# The settings of a person who runs this in production. Everything that makes a
# commit durable is at its default, on.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    # Checkpoints happen when a measure requests one, not in the middle of another.
    "max_wal_size": "8GB",
    "min_wal_size": "2GB",
    "checkpoint_timeout": "30min",
    # Full-page images after a checkpoint are most of the WAL; compressing them costs
    # less than writing them.
    "wal_compression": "lz4",
    "random_page_cost": "1.1",
    "max_connections": "200",
    "listen_addresses": "",
    "log_checkpoints": "on",
    "log_min_messages": "warning",
    "lc_messages": "C",
}

# min_wal_size.
WAL_FILES = 128


def _binaries():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"),
                   key=lambda path: int(path.split("/")[4]))
    if not found:
        raise RuntimeError("no Postgres under /usr/lib/postgresql: "
                           "run scripts/install-dependencies.sh bench")
    return pathlib.Path(found[-1]).parent


class Cluster:
    """Reached through a unix socket in its folder. Ends with stop()."""

    # Of the server's command, for example `env` with variables.
    prefix = ()

    def __init__(self, folder, wal_files=WAL_FILES):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self._bin = _binaries()
        # initdb and the server refuse to run as root.
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        self._server = None
        self._databases = 0
        self._init()
        self._start()
        self._fill_wal(wal_files)

    def _init(self):
        command = [str(self._bin / "initdb"), "--pgdata", str(self.folder / "data"),
                   "--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C",
                   "--no-sync"]
        if self._user is not None:
            command = ["setpriv", f"--reuid={self._user}", f"--regid={self._user}",
                       "--init-groups"] + command
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def _start(self):
        settings = [argument for name, value in SETTINGS.items()
                    for argument in ("-c", f"{name}={value}")]
        # It logs to stderr; the expected lines are read from stdout.
        self._server = Process(
            ["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *self.prefix, str(self._bin / "postgres"),
             "-D", str(self.folder / "data"), "-k", str(self.folder), "-c", "log_line_prefix=",
             *settings],
            self.folder.parent / f"{self.folder.name}.log", self._user)
        self._server.wait_for_line("database system is ready to accept connections")

    def _fill_wal(self, files):
        """Makes the server reuse its WAL files, as one does that has run for a while: a new one
        requires 16 MiB of zeros to be written first, and every session waits for it."""
        self.sql("".join(f"SELECT pg_logical_emit_message(false, 'fill', '{i}');"
                         "SELECT pg_switch_wal();" for i in range(files)) + "CHECKPOINT")

    def stop(self):
        if self._server is not None:
            # As after a crash: none of its files are kept.
            self._server.stop(signal.SIGQUIT)
            self._server = None

    def new_database(self):
        """The name of an empty one."""
        self._databases += 1
        name = f"bench_{self._databases}"
        self.sql(f"CREATE DATABASE {name}")
        return name

    def drop_database(self, name):
        self.sql(f"DROP DATABASE {name} WITH (FORCE)")

    def url(self, database):
        host = urllib.parse.quote(str(self.folder), safe="")
        return f"postgresql://postgres@/{database}?host={host}"

    def sql(self, statement, database="postgres", limit=3600):
        """Runs it; returns psql's unaligned output."""
        done = subprocess.run(
            [str(self._bin / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
             "-d", self.url(database), "-f", "-"],
            input=statement, capture_output=True, text=True, timeout=limit, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"SQL failed: {done.stderr.strip()}\n{statement[:400]}")
        return done.stdout.strip()

    def wal_bytes(self):
        """Written so far."""
        return int(self.sql("SELECT pg_current_wal_insert_lsn() - '0/0'").partition(".")[0])

    def version(self):
        return self.sql("SHOW server_version")

    def pgbench_command(self, database, *arguments):
        tool = self._bin / "pgbench"
        if not tool.exists():
            tool = shutil.which("pgbench") or "pgbench"
        return [str(tool), "-h", str(self.folder), "-U", "postgres", *arguments, database]

    def pids(self):
        """Of the server and all its processes."""
        return [self._server.pid] + self._children()

    def cpu_seconds(self):
        """Of the server and all its processes, since it was started."""
        return family_cpu_seconds(self._server.pid, self._children)

    def voluntary_switches(self):
        """Of its processes that run."""
        total = 0
        for pid in self.pids():
            try:
                total += voluntary_switches(pid)
            except FileNotFoundError:
                # It has ended meanwhile.
                continue
        return total

    def _children(self):
        children = pathlib.Path(f"/proc/{self._server.pid}/task/{self._server.pid}/children")
        return [int(child) for child in children.read_text().split()]

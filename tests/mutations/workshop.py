"""A scratch copy of the product, in which bugs are planted, built and looked for."""

import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# In seconds. A first build without a compiler cache takes the longest.
_CONFIGURE_LIMIT = 120
_BUILD_LIMIT = 3600
_TEST_LIMIT = 600
_NOT_COPIED = {"build", ".git", ".cache"}


class Failed(RuntimeError):
    """A command that had to succeed did not; says why."""


def _ignored(folder, names):
    if pathlib.Path(folder) == ROOT:
        return _NOT_COPIED.intersection(names)
    return {"__pycache__"}.intersection(names)


class Workshop:
    """Use it with `with`: nothing is left behind."""

    def __init__(self, jobs):
        self._jobs = jobs
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="prove-mutations."))
        # Postgres runs as a user of its own, and comes by here.
        self._folder.chmod(0o711)
        self._tree = self._folder / "tree"
        # As other scripts build the product, and where: their compiler cache serves here.
        self._build = self._tree / "build" / "release"
        self._temporary = self._folder / "tmp"
        self._originals = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end_leftovers()
        shutil.rmtree(self._folder, ignore_errors=True)

    def prepare(self):
        shutil.copytree(ROOT, self._tree, ignore=_ignored, symlinks=True)
        self._temporary.mkdir()
        status, output = self._run(
            ["cmake", "--preset", "release", "-S", self._tree, "-DIDEMPOTENCY_BUILD_TESTS=ON",
             "-DIDEMPOTENCY_BUILD_EXAMPLES=OFF"], _CONFIGURE_LIMIT)
        if status != 0:
            raise Failed(f"the scratch copy cannot be configured:\n{output}")

    def build(self, targets):
        status, output = self._run(
            ["nice", "ninja", "-C", self._build, f"-j{self._jobs}", *targets], _BUILD_LIMIT)
        if status != 0:
            errors = [line for line in output.splitlines() if "error" in line]
            raise Failed("it does not build: " + "; ".join(errors[:3] or output.splitlines()[-3:]))

    def test(self, command):
        """(exit status or None for one that was cut off, what it printed)"""
        command = ["nice", self._build / "bin" / command[0], *command[1:]]
        status, output = self._run(command, _TEST_LIMIT)
        self._end_leftovers()
        return status, output

    def plant(self, mutation):
        """Raises Failed if the patch does not apply as it is."""
        for file in mutation.files:
            self._originals[file] = (self._tree / file).read_bytes()
        done = subprocess.run(
            ["patch", "-d", self._tree, "-p1", "--fuzz=0", "--no-backup-if-mismatch", "-s",
             "-r", "-"], input=mutation.diff, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"the patch does not apply: {done.stdout.strip()}")

    def take_out(self):
        """The files as they were, with a new time, so that they are built again."""
        while self._originals:
            file, text = self._originals.popitem()
            (self._tree / file).write_bytes(text)

    def _run(self, command, limit):
        environment = dict(os.environ, TMPDIR=str(self._temporary),
                           GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS="100")
        with tempfile.TemporaryFile() as output, \
                subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, env=environment, cwd=self._tree,
                                 start_new_session=True) as process:
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                status = None
            finally:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
            output.seek(0)
            return status, output.read().decode(errors="replace")

    def _end_leftovers(self):
        """What a test that was cut off leaves running: known by its program, or by the folder
        that it is in, which are the scratch copy's."""
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                places = [os.readlink(process / "exe"), os.readlink(process / "cwd")]
            except OSError:
                continue
            if any(place.startswith(f"{self._folder}/") for place in places):
                os.kill(int(process.name), signal.SIGKILL)

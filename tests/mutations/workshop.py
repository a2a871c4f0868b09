"""A scratch copy of the product, in which bugs are planted, built and tested."""

import os
import pathlib
import shutil

from .sandbox import Sandbox

ROOT = pathlib.Path(__file__).resolve().parents[2]
# In seconds. A first build without a compiler cache takes the longest.
_CONFIGURE_LIMIT = 120
_BUILD_LIMIT = 3600
_TEST_LIMIT = 600
_NOT_COPIED = {"build", ".git", ".cache"}


class Failed(RuntimeError):
    """A command that had to succeed did not; the message has the reason."""


def _ignored(folder, names):
    if pathlib.Path(folder) == ROOT:
        return _NOT_COPIED.intersection(names)
    return {"__pycache__"}.intersection(names)


def refresh(source, copy):
    """Gives `copy` the result of copytree(), and touches only files that differ, so that only
    those are built again. A file gets a new time with a new text: the remains of a planted bug
    are built again too."""
    wanted = set()
    for folder, folders, files in os.walk(source):
        ignored = _ignored(folder, folders + files)
        folders[:] = [name for name in folders if name not in ignored]
        for name in set(files) - ignored:
            original = pathlib.Path(folder) / name
            mirror = copy / original.relative_to(source)
            wanted.add(mirror)
            if not mirror.is_file() or mirror.read_bytes() != original.read_bytes():
                mirror.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(original, mirror)
                os.utime(mirror)
    for folder, folders, files in os.walk(copy):
        if pathlib.Path(folder) == copy:
            folders[:] = [name for name in folders if name not in _NOT_COPIED]
        for name in files:
            if pathlib.Path(folder) / name not in wanted:
                (pathlib.Path(folder) / name).unlink()


class Workshop:
    """Use it with `with`: nothing is left behind, except for the tree and its build if a folder
    is given in which to keep them."""

    def __init__(self, jobs, preset="release", kept=None):
        self.jobs = jobs
        self._preset = preset
        self._sandbox = Sandbox("prove-mutations.")
        self._kept = kept
        self.tree = (kept or self._sandbox.folder) / "tree"
        # The same way and folder in which other scripts build the product: their compiler cache
        # is used.
        self.build_folder = self.tree / "build" / preset
        self._originals = {}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.take_out()
        self._sandbox.__exit__(*error)

    def end_at(self, instant):
        """No command continues beyond this instant of time.monotonic()."""
        self._sandbox.end_at(instant)

    def stop(self):
        """From another thread: running commands are ended, and no other begins."""
        self._sandbox.stop()

    def prepare(self):
        if self._kept:
            self.tree.mkdir(parents=True, exist_ok=True)
            refresh(ROOT, self.tree)
        else:
            shutil.copytree(ROOT, self.tree, ignore=_ignored, symlinks=True)
        status, output = self.run(
            ["cmake", "--preset", self._preset, "-S", self.tree, "-DIDEMPOTENCY_BUILD_TESTS=ON",
             "-DIDEMPOTENCY_BUILD_EXAMPLES=OFF"], _CONFIGURE_LIMIT)
        if status != 0:
            raise Failed(f"the scratch copy cannot be configured:\n{output}")

    def build(self, targets):
        status, output = self.run(
            ["nice", "ninja", "-C", self.build_folder, f"-j{self.jobs}", *targets], _BUILD_LIMIT)
        if status != 0:
            errors = [line for line in output.splitlines() if "error" in line]
            raise Failed("it does not build: " + "; ".join(errors[:3] or output.splitlines()[-3:]))

    def test(self, command, limit=_TEST_LIMIT):
        """(exit status or None for one that was cut off, its output)"""
        command = ["nice", self.build_folder / "bin" / command[0], *command[1:]]
        status, output = self.run(command, limit)
        self._sandbox.end_leftovers()
        return status, output

    def replace(self, file, text):
        """The file has this text until take_out()."""
        self._originals[file] = (self.tree / file).read_bytes()
        (self.tree / file).write_text(text)

    def plant(self, mutation):
        """Raises BadBug if the code has no such place."""
        for file in mutation.files:
            self._originals[file] = (self.tree / file).read_bytes()
        for edit in mutation.edits:
            path = self.tree / edit.file
            path.write_text(edit.applied(path.read_text()))

    def take_out(self):
        """The files as they were, with a new time, so that they are built again."""
        while self._originals:
            file, text = self._originals.popitem()
            (self.tree / file).write_bytes(text)

    def run(self, command, limit):
        """As test(), for a program that is not the product's."""
        return self._sandbox.run(command, limit)

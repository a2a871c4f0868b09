#!/usr/bin/env python3
"""Runs clang-tidy over the files of a compilation database, and skips those that
were clean before.

A file's key is a hash of all that a finding can depend on: the preprocessed text
with its comments (NOLINT stands in them), the configuration, the compile command,
and the tool's version. Keys of clean files are kept in
$XDG_CACHE_HOME/idempotency-tidy (~/.cache), so that a second run looks only at
what a change touches.

  scripts/clang_tidy.py build/tidy               every file of the repository
  scripts/clang_tidy.py build/tidy FILE...       only these

Exit status: 0 if every file is clean, 1 if one is not.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import shlex
import subprocess
import sys
import threading

TIDY = "clang-tidy-14"
ROOT = pathlib.Path(__file__).resolve().parent.parent


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    folder = pathlib.Path(base) / "idempotency-tidy"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compile_commands(build):
    """Absolute file name -> (arguments without -o and -c, folder)."""
    commands = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        arguments = shlex.split(entry["command"])
        output = arguments.index("-o")
        del arguments[output:output + 2]
        arguments.remove("-c")
        commands[entry["file"]] = (arguments, entry["directory"])
    return commands


class Linter:
    """Thread-safe."""

    def __init__(self, build):
        self._build = build
        self._commands = compile_commands(build)
        self._cache = cache_folder()
        version = subprocess.run([TIDY, "--version"], check=True, capture_output=True).stdout
        self._common = version + (ROOT / ".clang-tidy").read_bytes()

    def _key(self, file):
        arguments, folder = self._commands[file]
        # Without line markers and folders, so that another checkout has the same key.
        text = subprocess.run([*arguments, "-E", "-P", "-CC", "-w"], cwd=folder,
                              capture_output=True, check=False)
        if text.returncode != 0:
            return None
        digest = hashlib.sha256(self._common)
        digest.update(" ".join(a.replace(str(ROOT), "") for a in arguments).encode())
        digest.update(text.stdout)
        return digest.hexdigest()

    def check(self, file):
        """None if it was clean before, "" if it is clean now, else the findings."""
        if file not in self._commands:
            return f"{file}: not in the compilation database\n"
        key = self._key(file)
        if key and (self._cache / key).exists():
            return None
        run = subprocess.run([TIDY, "-p", str(self._build), "--quiet", file],
                             capture_output=True, text=True, check=False)
        if run.returncode != 0:
            return run.stdout or run.stderr
        if key:
            (self._cache / key).touch()
        return ""


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 2
    names = sys.argv[2:] or subprocess.run(["git", "ls-files", "*.cc"], cwd=ROOT, check=True,
                                           capture_output=True, text=True).stdout.split()
    files = [str(ROOT / name) for name in names]
    linter = Linter(pathlib.Path(sys.argv[1]).resolve())
    lock = threading.Lock()
    done = cached = bad = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        running = {pool.submit(linter.check, file): file for file in files}
        for future in concurrent.futures.as_completed(running):
            findings = future.result()
            with lock:
                done += 1
                if findings is None:
                    cached += 1
                elif findings:
                    bad += 1
                    print(f"== {os.path.relpath(running[future], ROOT)}\n{findings}", flush=True)
                if done % 25 == 0 or done == len(files):
                    print(f"{done}/{len(files)} files, {cached} clean before, {bad} with findings",
                          flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Checks with clang that what a lock guards is touched with that lock held
(ABSL_GUARDED_BY and the like; GCC knows nothing of them).

  scripts/lock_check.py build/tidy     the product's files of a compilation database

Exit status: 0 if every file is clean, 1 if one is not.
"""

import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

COMPILER = "clang++-14"
ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("core", "client", "interceptors", "server")


def commands(build):
    """(file, command, folder) of each file of the product."""
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["file"]).relative_to(ROOT)
        if file.parts[0] not in FOLDERS or file.stem.endswith("_test") or "testing" in file.parts:
            continue
        arguments = shlex.split(entry["command"])
        output = arguments.index("-o")
        del arguments[output:output + 2]
        arguments.remove("-c")
        while not arguments[0].endswith("++"):
            del arguments[0]  # ccache
        yield (file, [COMPILER, "-std=c++17", *arguments[1:], "-fsyntax-only", "-w",
                      "-Wthread-safety", "-Werror=thread-safety"], entry["directory"])


def check(entry):
    file, command, folder = entry
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return file, done.returncode, done.stderr


def main():
    entries = list(commands(pathlib.Path(sys.argv[1]).resolve()))
    bad = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for file, code, text in pool.map(check, entries):
            if code != 0:
                bad += 1
                print(f"== {file}\n{text}", flush=True)
    print(f"locks: {len(entries)} files, {bad} with findings")
    return 1 if bad or not entries else 0


if __name__ == "__main__":
    sys.exit(main())

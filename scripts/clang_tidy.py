#!/usr/bin/env python3
"""Runs clang-tidy, and with it clang's own warnings (thread safety among them),
over files of a compilation database.

  scripts/clang_tidy.py build/tidy               every file that this project builds
  scripts/clang_tidy.py build/tidy FILE...       only these

Two things make that fast, and the preset `tidy` builds both: third-party headers
are read once (cmake/precompiled.h), and the checks examine only the project's code
(scripts/tidy/own_code.cc).

Exit status: 0 if every file is clean, 1 if one is not.
"""

import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

TIDY = "clang-tidy-14"
ROOT = pathlib.Path(__file__).resolve().parent.parent
# In no compilation database here: the folders of tests/install are projects of their own, and
# files in tests/architecture are not built.
FILES = ["*.cc", ":!tests/install/*/*", ":!tests/architecture/*"]


class Linter:
    """Thread-safe."""

    def __init__(self, build):
        self._build = build
        database = json.loads((build / "compile_commands.json").read_text())
        self._known = {entry["file"] for entry in database}

    def check(self, file):
        """The findings; none if the file is clean."""
        path = str(ROOT / file)
        if path not in self._known:
            return "not in the compilation database\n"
        run = subprocess.run(
            [TIDY, "-p", str(self._build), "--quiet", f"--load={self._build}/lib/own_code.so",
             "--checks=idempotency-own-code", path],
            capture_output=True, text=True, check=False)
        return run.stdout + run.stderr if run.returncode != 0 else ""


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 2
    files = sys.argv[2:] or subprocess.run(["git", "ls-files", *FILES], cwd=ROOT, check=True,
                                           capture_output=True, text=True).stdout.split()
    linter = Linter(pathlib.Path(sys.argv[1]).resolve())
    done = bad = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        running = {pool.submit(linter.check, file): file for file in files}
        for future in concurrent.futures.as_completed(running):
            done += 1
            if findings := future.result():
                bad += 1
                print(f"== {running[future]}\n{findings}", flush=True)
            if done % 50 == 0 or done == len(files):
                print(f"{done}/{len(files)} files, {bad} with findings", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""scripts/nightly.sh: every stage is a command that exists, and the run reports each result.

The scripts that it calls are replaced in a copy of the tree: one passes, one fails, one does not end.

usage: nightly_test.py PROJECT_ROOT
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

STUBS = {"simulate.sh": "exit 0", "coverage.sh": "echo 'too few lines'; exit 3", "fuzz.sh": "tail -f /dev/null"}


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def stage_faults(root):
    listed = output(root / "scripts/nightly.sh", "--list").stdout
    stages = re.findall(r"(?m)^(\S+) +\d+ min  (.+)$", listed)
    if len(stages) < 10:
        yield f"--list has {len(stages)} stages"
    ci = (root / ".ci/run").read_text()
    for name, command in stages:
        program, *arguments = command.split()
        if not program.startswith("scripts/"):
            continue
        if not os.access(root / program, os.X_OK):
            yield f"{name}: {program} cannot be run"
            continue
        usage = (root / program).read_text()
        for argument in arguments:
            if argument.split("=")[0] not in usage:
                yield f"{name}: {program} has no {argument}"
        if command in ci:
            yield f"{name}: .ci/run has it already"
    profiles = {path.stem.replace("_", "-") for path in (root / "tests/chaos/campaign/profiles").glob("*.py")}
    for profile in profiles - {"--init--", "profile", "profiles-test", "default"}:
        if f"--profile={profile}" not in listed:
            yield f"no stage has the profile {profile} of the chaos campaign"


def copy_of(root, folder):
    for file in ("scripts/nightly.sh", "tests/support/subreaper.py"):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / file, folder / file)
    for name, text in STUBS.items():
        script = folder / "scripts" / name
        script.write_text(f"#!/bin/sh\n{text}\n")
        script.chmod(0o755)
    # For the commit in the summary.
    for command in (["init", "--quiet"], ["-c", "user.name=t", "-c", "user.email=t@example.org", "commit",
                                          "--quiet", "--allow-empty", "--message=empty"]):
        output("git", *command, cwd=folder)


def run_faults(root):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        copy_of(root, folder)
        # The stub that does not end is ended by the limit.
        done = output(folder / "scripts/nightly.sh", "--limit=3", "simulation", "coverage", "fuzz")
        summary = (folder / "build/nightly/summary.txt").read_text()
        if done.returncode != 1:
            yield f"status {done.returncode} with a failed stage: {done.stderr}"
        for wanted in (r"^commit [0-9a-f]+ of ", r"^simulation +passed in ", r"^coverage +FAILED with status 3 ",
                       r"^fuzz +FAILED: not done within 3 s"):
            if not re.search(wanted, summary, re.M):
                yield f"the summary lacks {wanted}: {summary}"
        if summary not in done.stdout:
            yield "the summary is not printed"
        if (folder / "build/nightly/coverage.log").read_text() != "too few lines\n":
            yield "coverage.log is not the output of its stage"
        if (status := output(folder / "scripts/nightly.sh", "simulation").returncode) != 0:
            yield f"status {status} where every stage passed"
        for wrong in ("--unknown", "no-such-stage"):
            if (status := output(folder / "scripts/nightly.sh", wrong).returncode) != 2:
                yield f"status {status} for {wrong}"


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    faults = [*stage_faults(root), *run_faults(root)]
    print("\n".join(faults) or "scripts/nightly.sh runs what exists, and reports it")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

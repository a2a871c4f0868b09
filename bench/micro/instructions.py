"""Counts the instructions of the inner loops and compares them with the baseline.

scripts/instructions.sh builds the counted program and calls this.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TOLERANCE = 0.05
FUNCTION = "IdempotencyCountedIterations"
# OpenSSL chooses its code by the processor; every processor has the plain one.
ENVIRONMENT = {"OPENSSL_ia32cap": "0", "LC_ALL": "C"}


def total_of(dump):
    """The instructions in a file of callgrind's."""
    found = re.search(r"^(?:totals|summary): (\d+)", dump, re.M)
    if found is None:
        raise ValueError("callgrind wrote a file without a sum")
    return int(found.group(1))


def count(binary):
    """Instructions per iteration, by loop."""
    with tempfile.TemporaryDirectory(prefix="idempotency-instructions.") as folder:
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--toggle-collect={FUNCTION}",
             f"--dump-after={FUNCTION}", f"--callgrind-out-file={folder}/out", str(binary)],
            capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, **ENVIRONMENT})
        if done.returncode != 0:
            raise RuntimeError(f"valgrind failed:\n{done.stderr[-2000:]}")
        counts = {}
        for number, line in enumerate(done.stdout.splitlines(), start=1):
            name, iterations = line.split()
            dump = pathlib.Path(folder, f"out.{number}").read_text()
            counts[name] = round(total_of(dump) / int(iterations))
        return counts


def compare(counts, baseline):
    """Lines of a table, and the loops that differ: more, fewer, new or missing."""
    lines = [f"{'inner loop':24}{'instructions':>14}{'baseline':>12}{'change':>10}"]
    off = []
    for name in sorted(counts.keys() | baseline.keys()):
        now, before = counts.get(name), baseline.get(name)
        verdict = ""
        change = ""
        if now is None or before is None:
            verdict = "gone" if now is None else "new"
        else:
            ratio = now / before - 1
            change = f"{100 * ratio:+.1f} %"
            if abs(ratio) > TOLERANCE:
                verdict = "MORE" if ratio > 0 else "FEWER"
        if verdict:
            off.append(name)
        lines.append(f"{name:24}{now if now is not None else '-':>14}"
                     f"{before if before is not None else '-':>12}{change:>10}  {verdict}".rstrip())
    return lines, off


def compiler():
    done = subprocess.run(["c++", "-dumpfullversion"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def main():
    parser = argparse.ArgumentParser(prog="scripts/instructions.sh")
    parser.add_argument("--update", action="store_true", help="write what is counted as the baseline")
    parser.add_argument("--baseline", default="bench/baseline.json", type=pathlib.Path)
    parser.add_argument("--binary", default="build/release/bin/instruction_loops",
                        type=pathlib.Path)
    options = parser.parse_args()
    counts = count(options.binary)
    if options.update:
        options.baseline.write_text(
            json.dumps({"compiler": compiler(), "instructions": counts}, indent=1) + "\n")
    stored = json.loads(options.baseline.read_text())
    lines, off = compare(counts, stored["instructions"])
    print("\n".join(lines))
    if stored["compiler"] != compiler():
        print(f"the baseline is from compiler {stored['compiler']}, this is {compiler()}")
    if off:
        print(f"off by more than {100 * TOLERANCE:.0f} %: {', '.join(off)}. If that is meant, run "
              "scripts/instructions.sh --update and commit bench/baseline.json.", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()

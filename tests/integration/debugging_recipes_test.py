#!/usr/bin/env python3
"""Runs every recipe of docs/debugging.md against a real idempotencyd.

With grpcurl where it is installed or Go can install it; otherwise with
reflection_client, which takes the same words. Which one it was is printed.

In a recipe, `#> text` is something that must be printed, `#= NAME field` keeps
a field of the JSON answer for later recipes, and `fails=Code` in the opening
line says that the call must fail with that code.

usage: debugging_recipes_test.py BIN_FOLDER DEBUGGING_MD
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
CODES = {"FailedPrecondition": 9, "NotFound": 5}


def find_grpcurl(bin_folder):
    """The path of a grpcurl, and what it is."""
    if found := shutil.which("grpcurl"):
        return found, "grpcurl from PATH"
    go = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)
    if go:
        tools = os.path.join(bin_folder, "..", "tools")
        os.makedirs(tools, exist_ok=True)
        binary = os.path.join(tools, "grpcurl")
        if os.path.exists(binary):
            return binary, "grpcurl installed by go earlier"
        done = subprocess.run([go, "install", GRPCURL], env={**os.environ, "GOBIN": os.path.abspath(tools)},
                              capture_output=True, text=True, timeout=400, check=False)
        if done.returncode == 0:
            return binary, f"grpcurl installed by go ({GRPCURL})"
        print("go could not install grpcurl:", done.stderr.strip().splitlines()[-1:], flush=True)
    return os.path.join(bin_folder, "reflection_client"), "reflection_client (no grpcurl, no Go)"


def recipes(path):
    """(line, options, commands, wanted texts, kept fields) of every recipe."""
    found = []
    text = open(path, encoding="utf-8").read()
    for match in re.finditer(r"^```sh recipe(.*?)\n(.*?)^```", text, re.M | re.S):
        lines = match.group(2).splitlines()
        wanted = [line[3:] for line in lines if line.startswith("#> ")]
        kept = [line[3:].split() for line in lines if line.startswith("#= ")]
        command = "\n".join(line for line in lines if not line.startswith(("#> ", "#= ")))
        found.append((text.count("\n", 0, match.start()) + 1, match.group(1).strip(), command, wanted, kept))
    return found


def run_recipe(recipe, binary, address, variables):
    """The faults of one recipe."""
    line, options, command, wanted, kept = recipe
    command = command.replace("127.0.0.1:7411", address)
    script = f'grpcurl() {{ "{binary}" "$@"; }}\n{command}'
    done = subprocess.run(["bash", "-c", script], env={**os.environ, **variables},
                          capture_output=True, text=True, timeout=60, check=False)
    output = done.stdout + done.stderr
    expected = 64 + CODES[options.removeprefix("fails=")] if options else 0
    faults = []
    if done.returncode != expected:
        faults.append(f"line {line}: exit {done.returncode}, not {expected}\n{output}")
    for text in wanted:
        # grpcurl and protobuf print JSON with different spaces.
        if re.sub(r"\s", "", text) not in re.sub(r"\s", "", output):
            faults.append(f"line {line}: did not print {text!r}\n{output}")
    for name, field in kept:
        if value := re.search(rf'"{field}":\s*"([^"]*)"', output):
            variables[name] = value.group(1)
        else:
            faults.append(f"line {line}: no field {field}\n{output}")
    return faults


def main():
    bin_folder, document = sys.argv[1:3]
    binary, what = find_grpcurl(bin_folder)
    print("with", what, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        daemon = subprocess.Popen(
            [os.path.join(bin_folder, "idempotencyd"), "serve", "--listen=127.0.0.1:0", "--metrics=",
             f"--store=sqlite:{folder}/records.db"], stdout=subprocess.PIPE, text=True)
        try:
            ready = daemon.stdout.readline()
            address = re.search(r"serving on (\S+?)(,|\s|$)", ready).group(1)
            found = recipes(document)
            assert len(found) >= 12, f"only {len(found)} recipes in {document}"
            variables, faults = {}, []
            for recipe in found:
                faults += run_recipe(recipe, binary, address, variables)
            print(f"{len(found)} recipes, {len(faults)} faults")
            print("\n".join(faults))
            return 1 if faults else 0
        finally:
            daemon.terminate()
            daemon.wait(timeout=30)


if __name__ == "__main__":
    sys.exit(main())

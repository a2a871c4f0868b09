#!/usr/bin/env python3
"""Pastes every recipe of a page unchanged into one bash, against a real idempotencyd; each page
against one of its own.

With grpcurl if it is installed or Go can install it; otherwise with
reflection_client, which takes the same arguments. The test prints its choice.

In the opening line of a recipe `fails=Code` means that the call of grpcurl must fail with that code.

usage: recipes_test.py BIN_FOLDER PAGE...
"""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
# pylint: disable=wrong-import-position
from tests.support.recipe_page import blocks

GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3"
CODES = {"FailedPrecondition": 9, "NotFound": 5}


def find_grpcurl(bin_folder):
    """The path of a grpcurl, and its origin."""
    if found := shutil.which("grpcurl"):
        return found, "grpcurl from PATH"
    go = shutil.which("go") or ("/usr/local/go/bin/go" if os.path.exists("/usr/local/go/bin/go") else None)
    if go:
        tools = os.path.join(bin_folder, "..", "tools")
        os.makedirs(tools, exist_ok=True)
        binary = os.path.join(tools, "grpcurl")
        if os.path.exists(binary):
            return binary, "grpcurl installed by go earlier"
        try:
            done = subprocess.run([go, "install", GRPCURL], env={**os.environ, "GOBIN": os.path.abspath(tools)},
                                  capture_output=True, text=True, timeout=200, check=False)
        except subprocess.TimeoutExpired:
            print("go did not install grpcurl in time", flush=True)
        else:
            if done.returncode == 0:
                return binary, f"grpcurl installed by go ({GRPCURL})"
            print("go could not install grpcurl:", done.stderr.strip().splitlines()[-1:], flush=True)
    return os.path.join(bin_folder, "reflection_client"), "reflection_client (no grpcurl, no Go)"


def paste(found, folder, address, console):
    """The output and the exit status of each recipe: all of them are pasted into one shell,
    which reads them as from a terminal."""
    mark = "@@ the end of a recipe:"
    script = "".join(f"{recipe.text}\nprintf '\\n{mark} %s\\n' $?\n" for recipe in found)
    environment = {**os.environ, "DAEMON": address, "CONSOLE": f"http://{console}",
                   "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1",
                   "PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-s"], input=script, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=200, check=False)
    printed = re.split(rf"\n{mark} (\d+)\n", done.stdout)
    return list(zip(printed[::2], map(int, printed[1::2])))


def recipes(document):
    """The recipes of a page, with the status that a code of grpcurl means."""
    found = [block for block in blocks(document) if block.is_recipe]
    return [dataclasses.replace(recipe, opening=re.sub(
        r"fails=(\w+)", lambda code: f"exit={64 + CODES[code[1]]}", recipe.opening)) for recipe in found]


def check(document, bin_folder, grpcurl):
    """True if every recipe of a page did what it says."""
    with tempfile.TemporaryDirectory() as folder:
        daemon = subprocess.Popen(
            [os.path.join(bin_folder, "idempotencyd"), "serve", "--listen=127.0.0.1:0", "--metrics=",
             "--console=127.0.0.1:0", f"--store=sqlite:{folder}/records.db"], stdout=subprocess.PIPE, text=True)
        try:
            ready = daemon.stdout.readline()
            address = re.search(r"serving on (\S+?)(,|\s|$)", ready).group(1)
            console = re.search(r"console on (\S+)", ready).group(1)
            found = recipes(document)
            assert len(found) >= 6, f"only {len(found)} recipes in {document}"
            os.symlink(os.path.abspath(grpcurl), os.path.join(folder, "grpcurl"))
            os.symlink(os.path.abspath(os.path.join(bin_folder, "idempotencyctl")),
                       os.path.join(folder, "idempotencyctl"))
            printed = paste(found, folder, address, console)
            faults = [fault for recipe, (output, status) in zip(found, printed)
                      for fault in recipe.faults(output, status)]
            if len(printed) != len(found):
                faults.append(f"the shell ended after {len(printed)} recipes")
            print(f"{document}: {len(found)} recipes, {len(faults)} faults")
            print("\n".join(faults))
            return not faults
        finally:
            daemon.terminate()
            daemon.wait(timeout=30)


def main():
    bin_folder, *documents = sys.argv[1:]
    binary, what = find_grpcurl(bin_folder)
    print("with", what, flush=True)
    passed = [check(document, bin_folder, binary) for document in documents]
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())

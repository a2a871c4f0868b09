"""The filter of system calls in the unit against the calls that the program makes, as strace sees
them: a refused call shows here by its name, and under systemd as any fault."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from .packages import BUILD, output
from .service_unit import ServiceUnit

UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy/idempotencyd.service"
PROGRAM = BUILD / "bin/idempotencyd"


def calls_of(name):
    """The system calls of a set, such as @system-service."""
    if not name.startswith("@"):
        return {name}
    found = set()
    for line in output("systemd-analyze", "--no-pager", "syscall-filter", name).splitlines()[1:]:
        if line.startswith("    ") and not line.strip().startswith("#"):
            found |= calls_of(line.strip())
    return found


def permitted():
    lists = ServiceUnit(UNIT).settings["SystemCallFilter"]
    found = set()
    for text in lists:
        denied = text.startswith("~")
        for name in text.lstrip("~").split():
            found = found - calls_of(name) if denied else found | calls_of(name)
    return found


def used_while_serving():
    """The system calls of a server until it has answered a health check, and ended."""
    # As root, SQLite gives its files to the owner of the database.
    user = {"user": "nobody", "group": "nogroup"} if os.getuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o777)
        trace = pathlib.Path(folder, "trace")
        # That user may not enter the folder of the build.
        program = pathlib.Path(shutil.copyfile(PROGRAM, f"{folder}/idempotencyd"))
        program.chmod(0o755)
        with subprocess.Popen(
                ["strace", "-f", "-qq", "-o", trace, program, "serve",
                 f"--store=sqlite:{folder}/records.db", "--listen=127.0.0.1:0",
                 "--metrics=127.0.0.1:0"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **user) as tracer:
            address = re.search(r"on ([\d.]+:\d+)", tracer.stdout.readline())[1]
            output(PROGRAM, "health", f"--address={address}", "--timeout=30s")
            served = int(pathlib.Path(
                f"/proc/{tracer.pid}/task/{tracer.pid}/children").read_text().split()[0])
            output("kill", served)
            assert tracer.wait(timeout=60) == 0
        return set(re.findall(r"(?m)^\d+ +(\w+)\(", trace.read_text()))


class SystemCallsTest(unittest.TestCase):

    def test_the_filter_permits_what_serving_needs(self):
        calls = used_while_serving()
        self.assertGreater(len(calls), 40)
        self.assertEqual(calls - permitted(), set())

    def test_the_filter_denies(self):
        self.assertEqual(permitted() & {"mount", "ptrace", "init_module", "reboot", "setuid",
                                        "chown", "kexec_load", "bpf"}, set())
        self.assertIn("fsync", permitted())


if __name__ == "__main__":
    unittest.main()

"""A program that ends without ending its child processes: none of them is left."""

import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from tests.support.subreaper import VARIABLE

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A child, one that is stopped, one of a thread that has ended, and one in a session of its
# own whose parent has ended.
PROGRAM = """
import os, signal, subprocess, sys, threading, time
from tests.support.subreaper import run_under_subreaper
run_under_subreaper()
ended = []
def stopped_by_a_signal(*_):
    print("stopped by a signal", flush=True)
    os._exit(9)
signal.signal(signal.SIGTERM, stopped_by_a_signal)
pids = [os.getpid()]
pids.append(subprocess.Popen(["sleep", "1000"]).pid)
pids.append(subprocess.Popen(["sleep", "1000"], start_new_session=True).pid)
os.kill(pids[-1], signal.SIGSTOP)
def start():
    pids.append(subprocess.Popen(["sleep", "1000"]).pid)
thread = threading.Thread(target=start)
thread.start()
thread.join()
shell = subprocess.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"],
                       stdout=subprocess.PIPE, check=True)
pids.append(int(shell.stdout))
print(*pids, flush=True)
how = sys.argv[1]
if how == "abort":
    os.abort()
if how == "kills itself":
    os.kill(os.getpid(), signal.SIGKILL)
if how == "exits":
    os._exit(7)
time.sleep(1000)
"""


class SubreaperTest(unittest.TestCase):

    def run_program(self, how, sent=None):
        """(exit status, its output after the pids); all its processes have ended."""
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, how], cwd=ROOT,
                                   env=environment, stdout=subprocess.PIPE, text=True)
        with process:
            pids = [int(word) for word in process.stdout.readline().split()]
            self.assertEqual(len(pids), 5)
            if sent is not None:
                process.send_signal(sent)
            # Every child holds it open.
            printed = process.stdout.read()
            status = process.wait(timeout=30)
        limit = time.monotonic() + 30
        for pid in pids:
            while pathlib.Path(f"/proc/{pid}").exists() and time.monotonic() < limit:
                time.sleep(0.005)
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists(), f"{pid} of {pids}")
        return status, printed

    def test_a_program_that_aborts(self):
        self.assertEqual(self.run_program("abort")[0], -signal.SIGABRT)

    def test_a_program_that_is_killed(self):
        self.assertEqual(self.run_program("kills itself")[0], -signal.SIGKILL)

    def test_the_process_that_was_called_is_killed(self):
        self.assertEqual(self.run_program("waits", signal.SIGKILL)[0], -signal.SIGKILL)

    def test_a_program_that_exits(self):
        self.assertEqual(self.run_program("exits"), (7, ""))

    def test_a_signal_is_the_programs_to_answer(self):
        self.assertEqual(self.run_program("waits", signal.SIGTERM), (9, "stopped by a signal\n"))


if __name__ == "__main__":
    unittest.main()

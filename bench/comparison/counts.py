"""Counts of processes, which a busy machine does not change as it changes times: voluntary context
switches, by the kernel's accounts, and system calls, by strace."""

import pathlib
import re
import shutil
import signal
import subprocess
import time

# strace has attached to every thread by then.
_ATTACHING_S = 20


def voluntary_switches(pid, proc=pathlib.Path("/proc")):
    """Of a process's threads that run, since each began."""
    total = 0
    for task in (proc / str(pid) / "task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            # The thread has ended meanwhile.
            continue
        total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.M).group(1))
    return total


def calls_in(summary):
    """The system calls in a summary of `strace -c`."""
    found = re.search(r"^100\.00\s+\S+\s+(?:\S+\s+)?(\d+)(?:\s+\d+)?\s+total$", summary, re.M)
    if found is None:
        raise ValueError("strace wrote no summary")
    return int(found.group(1))


class SystemCalls:
    """Counts the system calls of processes from here to stop(). Slows them down."""

    def __init__(self, pids, folder):
        self._traces = {}
        for pid in pids:
            summary = pathlib.Path(folder) / f"calls-{pid}"
            self._traces[pid] = summary, subprocess.Popen(
                ["strace", "-f", "-c", "-qq", "-o", str(summary), "-p", str(pid)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                start_new_session=True)
        for pid in pids:
            self._await_attached(pid)

    @staticmethod
    def available():
        return shutil.which("strace") is not None

    @staticmethod
    def _await_attached(pid):
        deadline = time.monotonic() + _ATTACHING_S
        tasks = pathlib.Path(f"/proc/{pid}/task")
        while any("TracerPid:\t0\n" in (task / "status").read_text() for task in tasks.iterdir()):
            if time.monotonic() > deadline:
                raise RuntimeError(f"strace does not attach to process {pid}")
            time.sleep(0.01)

    def stop(self):
        """By pid."""
        counted = {}
        for pid, (summary, trace) in self._traces.items():
            trace.send_signal(signal.SIGINT)
            trace.wait(_ATTACHING_S)
            counted[pid] = calls_in(summary.read_text())
        return counted

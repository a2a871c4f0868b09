"""A child process of the comparison."""

import os
import pathlib
import queue
import signal
import subprocess
import threading

from tests.support.subreaper import is_under_subreaper

_TICKS = os.sysconf("SC_CLK_TCK")
# The times of a server whose children start and end all the time are read this often.
_FAMILY_TRIES = 10


def cpu_seconds(pid, proc=pathlib.Path("/proc")):
    """User and system time of a process and of its children that have ended.

    ProcessLookupError if the process has ended: its file is missing then, or can no longer
    be read after it was opened."""
    try:
        stat = (proc / str(pid) / "stat").read_text()
    except FileNotFoundError as error:
        raise ProcessLookupError(f"process {pid} has ended") from error
    # The name in parentheses may contain blanks; the fields after it have fixed places.
    fields = stat.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


def family_cpu_seconds(parent, children, proc=pathlib.Path("/proc")):
    """Of a process and all its children, those that have ended included.

    `children` lists the pids of those that run. A child that ends meanwhile counts in
    its parent's sum from then on, so all are read again; after some tries the sum is
    taken without it."""
    for tries_left in reversed(range(_FAMILY_TRIES)):
        total, ended = cpu_seconds(parent, proc), False
        for child in children():
            try:
                total += cpu_seconds(child, proc)
            except ProcessLookupError:
                ended = True
        if not ended or tries_left == 0:
            return total


class Process:
    """Runs until it is stopped, or until this program ends in any way: its main has to
    call run_under_subreaper().

    Its stdout is read until the line that reports that it is ready; stdout and stderr
    are also kept in a log file.
    """

    def __init__(self, command, log, user=None, stdin=subprocess.DEVNULL):
        if not is_under_subreaper():
            raise RuntimeError("nothing would end it with this program: call "
                               "run_under_subreaper() in its main")
        self.log = pathlib.Path(log)
        prefix = []
        if user is not None:
            prefix = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"]
        self._log_file = open(self.log, "wb")
        # A session of its own: Ctrl-C is for this program, which then ends the
        # others in order.
        self._process = subprocess.Popen(
            prefix + command, stdin=stdin, stdout=subprocess.PIPE,
            stderr=self._log_file, start_new_session=True)
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self):
        return self._process.pid

    def _read(self):
        for line in self._process.stdout:
            self._log_file.write(line)
            self._log_file.flush()
            self._lines.put(line.decode(errors="replace").rstrip())
        self._lines.put(None)

    @property
    def running(self):
        return self._process.poll() is None

    @property
    def code(self):
        """Its exit status; negative: the signal that ended it. None while it runs."""
        return self._process.poll()

    def write_line(self, line):
        """Writes to its stdin, which has to be a pipe."""
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def wait_for_line(self, part, limit=60):
        """The first line of stdout that contains `part`."""
        while True:
            try:
                line = self._lines.get(timeout=limit)
            except queue.Empty:
                line = None
            if line is None:
                raise RuntimeError(f"it did not print {part!r}; its log:\n{self.tail()}")
            if part in line:
                return line

    def tail(self, lines=20):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def memory_mib(self, field):
        """A line of /proc/PID/status, as VmHWM or VmRSS, in MiB."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1]) / 1024
        raise RuntimeError(f"no {field} of process {self.pid}")

    def pause(self):
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def stop(self, number=signal.SIGTERM, limit=30):
        """Requests its end, and kills it if it does not end."""
        if self._process.poll() is None:
            self.resume()
            self._process.send_signal(number)
            try:
                self._process.wait(limit)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._reader.join(limit)
        self._process.stdout.close()
        self._log_file.close()

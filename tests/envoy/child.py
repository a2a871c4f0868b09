"""A process of a test, and the lines that it prints."""

import os
import select
import signal
import subprocess
import threading


class Child:
    """Started, and ready once it has printed a line with `ready`. Its stderr is the test's."""

    def __init__(self, command, ready, ready_within_s=60, **options):
        self.lines = []
        self._rest = b""  # of a line
        self._changed = threading.Condition()
        self.process = subprocess.Popen([str(one) for one in command], stdout=subprocess.PIPE,
                                        **options)
        self._output = self.process.stdout.fileno()
        os.set_blocking(self._output, False)
        self._reader = threading.Thread(target=self._read, name="child-output")
        self._reader.start()
        try:
            self.ready = self.wait_for(lambda line: ready in line, ready_within_s)
        except BaseException:
            self.kill()
            raise

    def _read(self):
        while not self._ended():
            select.select([self._output], [], [])
            with self._changed:
                self._take()

    def _ended(self):
        with self._changed:
            return self.lines[-1:] == [None]

    def _take(self):
        """Reads what it has printed so far. The caller holds the lock."""
        while self.lines[-1:] != [None]:
            try:
                read = os.read(self._output, 1 << 16)
            except BlockingIOError:
                return
            *lines, self._rest = (self._rest + read).split(b"\n")
            self.lines += [line.decode(errors="replace") for line in lines]
            if not read:
                self.lines.append(None)  # its output has ended
            self._changed.notify_all()

    def wait_for(self, matches, within_s=20):
        """The first line that `matches`."""
        def found():
            return next((line for line in self.lines if line is None or matches(line)), "")

        with self._changed:
            self._changed.wait_for(lambda: found() != "", within_s)
            line = found()
        if not line:
            raise AssertionError(f"no such line; it printed {self.lines}")
        return line

    def count(self, matches):
        """The lines that `matches`, of all that it has printed so far: a line that it prints
        before its reply is counted once the reply is here."""
        with self._changed:
            self._take()
            return sum(1 for line in self.lines if line is not None and matches(line))

    def kill(self):
        """Ends it at once, as a crash."""
        self.process.kill()
        self._end()

    def stop(self):
        """Freezes it, and waits until every thread has stopped."""
        self.process.send_signal(signal.SIGSTOP)
        # The kernel reports the stop once the last thread has stopped.
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def close(self, within_s=30):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(timeout=within_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self._end()

    def _end(self):
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

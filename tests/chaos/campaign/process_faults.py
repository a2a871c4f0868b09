"""Kills, stops and restarts processes."""

import time


class ProcessFaults:
    """For use by one thread."""

    def __init__(self, system, journal, random, lapse_s):
        """`lapse_s` is a lease."""
        self._system = system
        self._journal = journal
        self._random = random
        self._lapse_s = lapse_s
        self.kinds = {"kill_daemon": self.kill_daemon, "kill_bank": self.kill_bank,
                      "stop_daemon": self.stop_daemon, "stop_bank": self.stop_bank,
                      "rolling_restart": self.rolling_restart}
        self.impossible = {}

    def _any(self, kind):
        return self._random.choice(self._system.names(kind))

    def _kill(self, kind, name, servers):
        began = time.monotonic_ns()
        self._system.kill(name)
        time.sleep(self._random.uniform(0, 0.5))
        self._system.restart(name)
        self._journal.fault(kind, name, began, time.monotonic_ns(), servers)

    def kill_daemon(self):
        self._kill("kill_daemon", self._any("daemon"), None)

    def kill_bank(self):
        name = self._any("bank")
        self._kill("kill_bank", name, [name])

    def _stop(self, kind, name, servers):
        process = self._system.processes[name]
        began = time.monotonic_ns()
        process.pause()
        time.sleep(self._lapse_s + self._random.uniform(0.2, 0.8))
        process.resume()
        self._journal.fault(kind, name, began, time.monotonic_ns(), servers)

    def stop_daemon(self):
        self._stop("stop_daemon", self._any("daemon"), None)

    def stop_bank(self):
        name = self._any("bank")
        self._stop("stop_bank", name, [name])

    def rolling_restart(self):
        began = time.monotonic_ns()
        for name in self._system.names("daemon"):
            self._system.terminate(name)
            self._system.restart(name)
        self._journal.fault("rolling_restart", "daemons", began, time.monotonic_ns())

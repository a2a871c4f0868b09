"""Kills, stops and restarts processes, and fails Postgres over."""

import time


class ProcessFaults:
    """To be run by the thread that started the processes: they end with it."""

    def __init__(self, system, journal, random, links, lapse_s):
        """`links` are the LinkFaults, which pause for a failover; `lapse_s` is a lease."""
        self._system = system
        self._journal = journal
        self._random = random
        self._links = links
        self._lapse_s = lapse_s

    def run(self, until, pause=(0.5, 1.5)):
        """Every kind in turn until time.monotonic() is `until`."""
        kinds = []
        while time.monotonic() < until:
            if not kinds:
                kinds = self._round()
            kinds.pop()()
            time.sleep(self._random.uniform(*pause))

    def _round(self):
        kinds = [self.kill_daemon, self.kill_bank, self.stop_daemon, self.stop_bank, self.kill_bank,
                 self.kill_daemon, self.rolling_restart, self.kill_postgres, self.fail_over]
        self._random.shuffle(kinds)
        return kinds

    def _any(self, kind, numbers):
        return f"{kind}{self._random.choice(numbers)}"

    def _kill(self, kind, name, servers):
        began = time.monotonic_ns()
        self._system.kill(name)
        time.sleep(self._random.uniform(0, 0.5))
        self._system.restart(name)
        self._journal.fault(kind, name, began, time.monotonic_ns(), servers)

    def kill_daemon(self):
        self._kill("kill_daemon", self._any("daemon", self._system.layout.daemons), None)

    def kill_bank(self):
        name = self._any("bank", self._system.layout.banks)
        self._kill("kill_bank", name, [name])

    def _stop(self, kind, name, servers):
        process = self._system.processes[name]
        began = time.monotonic_ns()
        process.pause()
        time.sleep(self._lapse_s + self._random.uniform(0.2, 0.8))
        process.resume()
        self._journal.fault(kind, name, began, time.monotonic_ns(), servers)

    def stop_daemon(self):
        self._stop("stop_daemon", self._any("daemon", self._system.layout.daemons), None)

    def stop_bank(self):
        name = self._any("bank", self._system.layout.banks)
        self._stop("stop_bank", name, [name])

    def rolling_restart(self):
        began = time.monotonic_ns()
        for number in self._system.layout.daemons:
            name = f"daemon{number}"
            self._system.terminate(name)
            self._system.restart(name)
        self._journal.fault("rolling_restart", "daemons", began, time.monotonic_ns())

    def kill_postgres(self):
        with self._links.whole():
            began = time.monotonic_ns()
            postgres = self._system.postgres
            postgres.restart_primary()
            self._journal.fault("kill_postgres", f"pg{postgres.primary.number}", began,
                                time.monotonic_ns())

    def fail_over(self):
        with self._links.whole():
            postgres = self._system.postgres
            postgres.wait_until_caught_up()
            began = time.monotonic_ns()
            postgres.fail_over()
            self._journal.fault("fail_over", f"pg{postgres.primary.number}", began,
                                time.monotonic_ns())
            postgres.attach_standby()

"""Sets the clock of a daemon or of a guarded server wrong, and lets it jump."""

import calendar
import json
import re
import time

from . import shifted_clock

_SHIFT_S = 40
# The tolerance between a clock's time and its set time.
_TOLERANCE_S = 10
# The longest time of a guarded server without a call.
_CALLED_WITHIN_S = 3
_LOGGED = re.compile(r'time=(\d+-\d+-\d+T\d+:\d+:\d+)\S* level=\S+ event="(\w+)"')


def logged_shift(log, event, now):
    """How far ahead of `now` a daemon's clock was when it last logged `event`; None if never."""
    times = [text for text, name in _LOGGED.findall(log) if name == event]
    if not times:
        return None
    return calendar.timegm(time.strptime(times[-1], "%Y-%m-%dT%H:%M:%S")) - now


def recorded_shift(lines, since, now, now_ns):
    """The same by the last execution of a history's lines that began after `since` on the
    monotonic clock, which had `now_ns` when the wall clock had `now`."""
    for line in reversed(lines):
        if not line.startswith('{"event":"start"') or not line.endswith("}"):
            continue
        event = json.loads(line)
        if event["t"] <= since:
            return None
        return event["wall_ms"] / 1e3 - (now - (now_ns - event["t"]) / 1e9)
    return None


class ClockFaults:
    """For use by one thread."""

    def __init__(self, system, journal, random):
        self._system = system
        self._journal = journal
        self._random = random
        self.kinds, self.impossible = {}, {}
        reason = shifted_clock.why_not(system.builds.current.program)
        if reason is None:
            self.kinds["shift_clock"] = self.shift_clock
        else:
            self.impossible["shift_clock"] = reason

    def shift_clock(self):
        name = self._random.choice(self._system.names("daemon") + self._system.names("bank"))
        clock = shifted_clock.ShiftedClock(self._system.folder / f"{name}.clock")
        shift = self._random.choice((-1, 1)) * _SHIFT_S
        began = time.monotonic_ns()
        self._end(name)
        clock.shift(shift)
        self._system.restart(name, clock)
        if name.startswith("daemon"):
            self._daemon(name, clock, shift, began)
        else:
            self._bank(name, clock, shift, began)
        self._system.restart(name)

    def _end(self, name):
        if name.startswith("daemon"):
            self._system.terminate(name)
        else:
            self._system.kill(name)

    def _daemon(self, name, clock, shift, began):
        """A daemon's log has the time at which it was ready, and at which it had to end."""
        log = self._system.processes[name].log
        self._count(name, None, began, shift,
                    logged_shift(log.read_text(errors="replace"), "serving", time.time()))
        time.sleep(self._random.uniform(0.3, 0.8))
        began = self._jump(clock, -shift)
        self._end(name)
        self._count(name, None, began, -shift,
                    logged_shift(log.read_text(errors="replace"), "signal", time.time()))

    def _bank(self, name, clock, shift, began):
        """Each execution of a guarded server is recorded with its time."""
        self._count(name, [name], began, shift, self._executed(name, began, shift))
        began = self._jump(clock, -shift)
        self._count(name, [name], began, -shift, self._executed(name, began, -shift))
        self._end(name)

    def _jump(self, clock, shift):
        began = time.monotonic_ns()
        clock.shift(shift)
        time.sleep(clock.noticed_after_s + self._random.uniform(0.1, 0.5))
        return began

    def _executed(self, name, since, wanted):
        """The recorded time of the last execution, once it is `wanted`."""
        shift = None
        deadline = time.monotonic() + _CALLED_WITHIN_S
        while not self._is(shift, wanted) and time.monotonic() < deadline:
            time.sleep(0.1)
            with open(self._system.histories[name], "rb") as history:
                history.seek(max(0, history.seek(0, 2) - 65536))
                lines = history.read().decode(errors="replace").splitlines()
            shift = recorded_shift(lines, since, time.time(), time.monotonic_ns())
        return shift

    @staticmethod
    def _is(shift, wanted):
        return shift is not None and abs(shift - wanted) < _TOLERANCE_S

    def _count(self, name, servers, began, wanted, seen):
        """It was no fault if no record shows the wrong time."""
        if self._is(seen, wanted):
            self._journal.fault("shift_clock", name, began, time.monotonic_ns(), servers)

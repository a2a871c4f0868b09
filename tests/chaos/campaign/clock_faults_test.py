"""The records that count as a wrong clock."""

import json
import unittest

from tests.chaos.campaign.clock_faults import logged_shift, recorded_shift

_LOG = """\
time=1970-01-01T00:16:40.557Z level=info event="serving" listen=unix:x
idempotencyd: serving on unix:x
time=1970-01-01T00:16:41.000Z level=info event="store answers"
time=1970-01-01T00:15:20.230Z level=info event="signal" number=15
"""


def _start(t, wall_ms):
    return json.dumps({"event": "start", "t": t, "wall_ms": wall_ms}, separators=(",", ":"))


class LoggedShift(unittest.TestCase):
    def test_is_of_the_event(self):
        self.assertEqual(logged_shift(_LOG, "serving", 960), 40)
        self.assertEqual(logged_shift(_LOG, "signal", 960), -40)

    def test_is_of_the_last_one(self):
        self.assertEqual(logged_shift(_LOG + _LOG.replace("16:40", "16:50"), "serving", 960), 50)

    def test_of_what_was_not_logged(self):
        self.assertIsNone(logged_shift(_LOG, "stopped", 960))
        self.assertIsNone(logged_shift("", "serving", 960))


class RecordedShift(unittest.TestCase):
    # At 1000 s by the wall clock the monotonic one has 7 s.
    def _shift(self, lines, since):
        return recorded_shift(lines, since, 1000, 7_000_000_000)

    def test_is_of_the_last_execution(self):
        lines = [_start(5_000_000_000, 998_000), _start(6_000_000_000, 1_039_000),
                 '{"event":"end","t":6500000000}']
        self.assertEqual(self._shift(lines, 0), 40)

    def test_an_earlier_execution_proves_nothing(self):
        self.assertIsNone(self._shift([_start(5_000_000_000, 1_038_000)], 5_000_000_000))

    def test_a_line_that_is_being_written_is_left_out(self):
        lines = [_start(5_000_000_000, 998_000), _start(6_000_000_000, 1_039_000)[:-3]]
        self.assertEqual(self._shift(lines, 0), 0)


if __name__ == "__main__":
    unittest.main()

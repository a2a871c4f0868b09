"""The stories of tests/antipatterns through a real Envoy, for a service without a line of this
project. Those that apply: 6 and 7 (crashes) are in guard_test, 9 too; 10 (the ledger) and 12 (steps
of a handler) need the guard inside the service, and 1 and 13's retries are the client's."""

import threading
import unittest
import uuid

from .grpc_call import call, channel, connected, reply_to, start
from .guard_test import CHARGE, Stack

CALLERS = 20


class AntipatternsTest(unittest.TestCase):

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.close)
        self.upstream = self.stack.upstream
        self.key = str(uuid.uuid4())

    def executions(self):
        return self.upstream.executions(self.key)

    def test_02_callers_that_come_at_the_same_time_run_once(self):
        together = threading.Barrier(CALLERS)
        codes = []

        def one():
            with connected(channel(self.stack.envoy.address)) as on:
                together.wait()
                codes.append(reply_to(start(on, CHARGE, self.key, b"pay")).code)

        threads = [threading.Thread(target=one, name=f"caller-{n}") for n in range(CALLERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.executions(), 1)
        self.assertIn("OK", codes)
        self.assertLessEqual(set(codes), {"OK", "ABORTED"})

    def test_03_a_duplicate_is_refused_with_a_time_to_come_back(self):
        with channel(self.stack.envoy.address) as on:
            running = start(on, CHARGE, self.key, b"hold")
            self.upstream.await_execution(self.key)
            duplicate = self.stack.call(self.key, b"hold")
            self.assertTrue(duplicate.has_reason("IN_FLIGHT"), duplicate)
            self.assertIn(b"google.rpc.RetryInfo", duplicate.details)
            self.upstream.release()
            self.assertEqual(reply_to(running).code, "OK")

    def test_04_a_call_without_a_key_never_reaches_the_service(self):
        for key in (None, ""):
            with self.subTest(key=key):
                refused = self.stack.call(key, b"pay")
                self.assertEqual(refused.code, "INVALID_ARGUMENT", refused)
        self.assertEqual(self.upstream.count(lambda line: line.startswith("executed")), 0)

    def test_05_a_decline_stays_a_decline(self):
        first = self.stack.call(self.key, b"refuse")
        for _ in range(3):
            self.assertEqual(self.stack.call(self.key, b"refuse").first_reply(), first.first_reply())
        self.assertEqual(self.executions(), 1)

    def test_06_what_was_acknowledged_survives_kill_minus_nine(self):
        first = self.stack.call(self.key, b"pay")
        self.stack.daemon.kill()
        self.stack.daemon.start()
        for _ in range(100):
            replay = self.stack.call(self.key, b"pay")
            if replay.code != "UNAVAILABLE":
                break
        self.assertEqual(replay.first_reply(), first.first_reply())
        self.assertEqual(self.executions(), 1)

    def test_08_another_request_neither_runs_nor_waits_for_the_other(self):
        with channel(self.stack.envoy.address) as on:
            running = start(on, CHARGE, self.key, b"hold 1")
            self.upstream.await_execution(self.key)
            other = self.stack.call(self.key, b"hold 2")
            self.assertTrue(other.has_reason("KEY_REUSED"), other)
            self.upstream.release()
            self.assertEqual(reply_to(running).code, "OK")
        self.assertEqual(self.executions(), 1)

    def test_11_every_reply_has_its_expiry(self):
        for _ in range(2):
            self.assertIn("idempotency-expires", dict(self.stack.call(self.key, b"pay").trailing))

    def test_11_a_key_older_than_the_memory_is_refused(self):
        # UUIDv7 of 2020.
        refused = self.stack.call("016f5e66-e800-7000-8000-000000000001", b"pay")
        self.assertTrue(refused.has_reason("KEY_EXPIRED"), refused)

    def test_13_retries_of_an_unclear_failure_run_once(self):
        codes = [call(self.stack.envoy.address, CHARGE, self.key, b"fail") for _ in range(5)]
        self.assertTrue(all(reply.has_reason("OUTCOME_UNKNOWN") for reply in codes[1:]), codes)
        self.assertEqual(self.executions(), 1)


if __name__ == "__main__":
    unittest.main()

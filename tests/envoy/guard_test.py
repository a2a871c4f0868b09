"""gRPC methods behind a real Envoy and idempotencyd: what callers get, and how often the service
runs. IDEMPOTENCY_ENVOY chooses the version of Envoy."""

import contextlib
import os
import pathlib
import sys
import tempfile
import unittest
import uuid

import grpc

from . import envoy
from .child import Child
from .daemon import Daemon
from .grpc_call import call, channel, reply_to, start
from .raw_http import send

VERSION = os.environ.get("IDEMPOTENCY_ENVOY", envoy.NEWEST)
UPSTREAM = pathlib.Path(__file__).with_name("upstream.py")
CHARGE = "/payments.v1.Payments/Charge"
# Its outcome is unknown only for the lease.
TAKEN_OVER = "/payments.v1.Payments/TakenOver"
SHOW = "/payments.v1.Payments/Show"
METHODS = """
  grpc_methods { name: "payments.v1.Payments/Charge" }
  grpc_methods {
    name: "payments.v1.Payments/TakenOver"
    policy { on_lease_expiry: LEASE_EXPIRY_TAKE_OVER lease { nanos: 500000000 } }
  }
"""
# A frozen processor is found by Envoy's keepalive: 5 s and 5 s.
FROZEN_WITHIN_S = 20


class Upstream(Child):
    def __init__(self):
        super().__init__([sys.executable, UPSTREAM], "serving on ")
        self.address = self.ready.rpartition(" ")[2]

    def executions(self, key):
        return self.count(lambda line: line.startswith("executed ") and line.endswith(f" {key}"))

    def await_execution(self, key):
        self.wait_for(lambda line: line.startswith("executed ") and line.endswith(f" {key}"))

    def release(self):
        """Lets the calls that hold answer, now and later."""
        call(self.address, "/test.Control/Release", None)


class Stack(contextlib.ExitStack):
    """A service, a daemon, and an Envoy between. Ends what it has started, in reverse."""

    def __init__(self):
        super().__init__()
        try:
            folder = self.enter_context(tempfile.TemporaryDirectory())
            self.upstream = self.enter_context(Upstream())
            self.daemon = self.enter_context(Daemon(folder, METHODS))
            self._flags = (
                f"--methods={CHARGE[1:]},{TAKEN_OVER[1:]}", f"--upstream={self.upstream.address}",
                f"--processor={self.daemon.processor}", f"--envoy_version={envoy.minor(VERSION)}")
            self.restart_envoy()
        except BaseException:
            self.close()
            raise

    def restart_envoy(self):
        """A new one, at another address."""
        self.envoy = self.enter_context(self.another_envoy())

    def another_envoy(self, *flags, edited=lambda config: config):
        """One more in front of the same service, with the configuration that `edited` returns."""
        return envoy.Envoy(edited(envoy.configuration(*self._flags, *flags)), VERSION)

    def call(self, key, body=b"", method=CHARGE, **options):
        return call(self.envoy.address, method, key, body, **options)


def soon_idle(config):
    """A stream without bytes for so long ends, in place of Envoy's five minutes."""
    manager = "          stat_prefix: guarded\n"
    assert manager in config
    return config.replace(manager, manager + "          stream_idle_timeout: 0.3s\n")


def soon_idle_on_guarded_routes(config):
    lines = soon_idle(config).splitlines(keepends=True)
    return "".join(line for line in lines if not line.strip().startswith("idle_timeout:"))


class GuardTest(unittest.TestCase):

    def setUp(self):
        self.stack = Stack()
        self.addCleanup(self.stack.close)
        self.upstream = self.stack.upstream
        self.key = str(uuid.uuid4())

    def executions(self):
        return self.upstream.executions(self.key)

    def started(self, body=b"hold", method=CHARGE):
        """A call that the service is running, and its channel."""
        on = channel(self.stack.envoy.address)
        self.addCleanup(on.close)
        running = start(on, method, self.key, body, timeout=60)
        self.upstream.await_execution(self.key)
        return running

    def assert_replayed(self, body):
        first = self.stack.call(self.key, body)
        self.assertFalse(first.replayed)
        replay = self.stack.call(self.key, body)
        self.assertTrue(replay.replayed, replay)
        self.assertEqual(replay.first_reply(), first.first_reply())
        self.assertEqual(self.executions(), 1)
        return first

    def test_a_reply_is_replayed_byte_for_byte(self):
        first = self.assert_replayed(b"pay")
        self.assertEqual((first.code, first.body), ("OK", b"reply 1"))
        self.assertIn(("x-bytes-bin", b"\0\1\xff"), first.trailing)
        self.assertIn(("x-initial", "initial 1"), first.initial)

    def test_a_large_reply_is_replayed(self):
        self.assertEqual(len(self.assert_replayed(b"size 1000000").body), 1_000_000)

    def test_an_empty_reply_is_replayed(self):
        self.assertEqual(self.assert_replayed(b"size 0").body, b"")

    def test_a_large_request_runs_once(self):
        self.assert_replayed(b"pay " + b"x" * 1_000_000)

    def test_an_error_is_replayed_with_its_details(self):
        first = self.assert_replayed(b"refuse")
        self.assertEqual((first.code, first.message),
                         ("FAILED_PRECONDITION", "kein Geld: 1 €, 50 %\n"))
        self.assertEqual(first.details, b"\x08\x09\x12\x03no!")

    def test_another_request_with_the_key_never_runs(self):
        self.stack.call(self.key, b"pay 1")
        other = self.stack.call(self.key, b"pay 2")
        self.assertEqual(other.code, "FAILED_PRECONDITION")
        self.assertTrue(other.has_reason("KEY_REUSED"), other)
        self.assertEqual(self.executions(), 1)

    def test_a_call_without_a_key_never_runs(self):
        refused = self.stack.call(None, b"pay")
        self.assertEqual(refused.code, "INVALID_ARGUMENT")
        self.assertTrue(refused.has_reason("KEY_MISSING"), refused)
        self.assertEqual(self.upstream.executions("-"), 0)

    def test_a_call_without_a_scope_never_runs(self):
        refused = self.stack.call(self.key, b"pay", metadata=())
        self.assertNotEqual(refused.code, "OK")
        self.assertEqual(self.executions(), 0)

    def test_a_path_with_a_query_never_runs(self):
        refused = self.stack.call(self.key, b"pay", CHARGE + "?x=1")
        self.assertNotEqual(refused.code, "OK")
        self.assertEqual(self.executions(), 0)

    def test_a_compressed_request_never_runs(self):
        with channel(self.stack.envoy.address) as on:
            refused = reply_to(on.unary_unary(CHARGE).future(
                b"pay " + b"x" * 10_000, timeout=20, compression=grpc.Compression.Gzip,
                metadata=(("x-tenant", "shop"), ("idempotency-key", self.key))))
        self.assertNotEqual(refused.code, "OK")
        self.assertIn(b"ErrorInfo", refused.details)
        self.assertEqual(self.executions(), 0)

    def test_two_keys_never_run(self):
        refused = self.stack.call(self.key, b"pay", metadata=(
            ("x-tenant", "shop"), ("idempotency-key", "another")))
        self.assertTrue(refused.has_reason("KEY_INVALID"), refused)
        self.assertEqual(self.upstream.count(lambda line: line.startswith("executed")), 0)

    def test_a_request_that_is_no_grpc_never_runs(self):
        status, _, _ = send(self.stack.envoy.address, "POST", CHARGE, [
            ("content-type", "application/json"), ("idempotency-key", self.key),
            ("x-tenant", "shop")], b"{}")
        self.assertGreaterEqual(status, 400)
        self.assertEqual(self.executions(), 0)

    def test_a_call_over_http1_runs_once(self):
        # As behind a filter for gRPC-Web, or a transcoder.
        headers = [("content-type", "application/grpc"), ("te", "trailers"), ("x-tenant", "shop"),
                   ("idempotency-key", self.key)]
        for _ in range(2):
            status, _, body = send(self.stack.envoy.address, "POST", CHARGE, headers,
                                   b"\0\0\0\0\3pay")
            self.assertEqual((status, body[5:]), (200, b"reply 1"))
        self.assertEqual(self.executions(), 1)

    def test_scopes_are_apart(self):
        first = self.stack.call(self.key, b"pay")
        other = self.stack.call(self.key, b"pay", metadata=(("x-tenant", "bakery"),))
        self.assertEqual((other.code, other.replayed), ("OK", False))
        self.assertNotEqual(other.body, first.body)

    def test_a_duplicate_in_flight_does_not_run(self):
        running = self.started()
        duplicate = self.stack.call(self.key, b"hold")
        self.assertEqual(duplicate.code, "ABORTED")
        self.assertTrue(duplicate.has_reason("IN_FLIGHT"), duplicate)
        self.upstream.release()
        self.assertEqual(reply_to(running).code, "OK")
        self.assertTrue(self.stack.call(self.key, b"hold").replayed)
        self.assertEqual(self.executions(), 1)

    def test_a_method_that_is_not_guarded_needs_no_processor(self):
        self.stack.daemon.kill()
        self.assertEqual(self.stack.call(None, b"", SHOW).code, "OK")

    def test_without_the_processor_nothing_runs(self):
        self.stack.daemon.kill()
        self.assertEqual(self.stack.call(self.key, b"pay").code, "UNAVAILABLE")
        self.assertEqual(self.executions(), 0)
        self.stack.daemon.start()
        self.assertEqual(self.until_ok(b"pay").code, "OK")
        self.assertEqual(self.executions(), 1)

    def until_ok(self, body, method=CHARGE):
        """The reply after a restart, which Envoy finds by connecting again."""
        for _ in range(100):
            reply = self.stack.call(self.key, body, method)
            if reply.code != "UNAVAILABLE":
                return reply
        return reply

    def assert_unknown(self, body=b"hold"):
        """A retry does not run, and gets that its outcome is unknown."""
        retry = self.until_ok(body)
        self.assertTrue(retry.has_reason("OUTCOME_UNKNOWN") or retry.has_reason("IN_FLIGHT"), retry)
        self.assertEqual(self.executions(), 1)

    def test_a_processor_killed_in_mid_call_fails_closed(self):
        running = self.started()
        self.stack.daemon.kill()
        reply = reply_to(running)
        self.assertEqual(reply.code, "UNAVAILABLE", reply)
        self.upstream.release()
        self.stack.daemon.start()
        self.assert_unknown()

    def test_a_processor_shut_down_in_mid_call_fails_closed(self):
        running = self.started()
        self.stack.daemon.child.process.terminate()
        self.upstream.release()
        reply = reply_to(running)
        # Either it was recorded before the end, or the caller got an error: never an OK without
        # its message.
        self.assertIn((reply.code, reply.body), (("OK", b"reply 1"), ("UNAVAILABLE", b"")), reply)
        self.stack.daemon.child.close()
        self.stack.daemon.start()
        retry = self.until_ok(b"hold")
        if reply.code == "OK":
            self.assertEqual(retry.first_reply(), reply.first_reply())
        self.assertEqual(self.executions(), 1)

    def test_an_upstream_killed_in_mid_call_is_an_unknown_outcome(self):
        running = self.started()
        self.upstream.kill()
        reply = reply_to(running)
        self.assertNotEqual(reply.code, "OK")
        self.assert_unknown()

    def test_a_caller_that_leaves_is_an_unknown_outcome(self):
        running = self.started()
        running.cancel()
        self.assertEqual(reply_to(running).code, "CANCELLED")
        self.upstream.release()
        self.assert_unknown()

    def test_a_failure_that_proves_nothing_is_an_unknown_outcome(self):
        self.assertEqual(self.stack.call(self.key, b"fail").code, "UNAVAILABLE")
        retry = self.stack.call(self.key, b"fail")
        self.assertTrue(retry.has_reason("OUTCOME_UNKNOWN"), retry)
        self.assertEqual(self.executions(), 1)

    def test_an_envoy_killed_in_mid_call_is_an_unknown_outcome(self):
        running = self.started()
        self.stack.envoy.kill()
        self.assertNotEqual(reply_to(running).code, "OK")
        self.upstream.release()
        self.stack.restart_envoy()
        self.assert_unknown()

    def test_the_end_of_its_time_is_an_unknown_outcome(self):
        with self.stack.another_envoy("--deadline=500ms") as short:
            reply = call(short.address, CHARGE, self.key, b"hold", timeout=20)
        self.assertIn(reply.code, ("DEADLINE_EXCEEDED", "UNAVAILABLE"), reply)
        self.upstream.release()
        self.assert_unknown()

    def test_a_call_without_bytes_has_all_of_its_time(self):
        idle = "http.guarded.downstream_rq_idle_timeout"
        with self.stack.another_envoy(edited=soon_idle) as written, \
                self.stack.another_envoy(edited=soon_idle_on_guarded_routes) as without, \
                channel(written.address) as on:
            running = start(on, CHARGE, self.key, b"hold", timeout=60)
            self.upstream.await_execution(self.key)
            # Once this one is idle for too long, the other is too.
            other = call(without.address, CHARGE, str(uuid.uuid4()), b"hold", timeout=20)
            self.assertNotEqual(other.code, "OK")
            self.assertEqual(without.stats(idle), {idle: 1})
            self.upstream.release()
            self.assertEqual(reply_to(running).code, "OK")
            self.assertEqual(written.stats(idle), {idle: 0})

    def test_a_stuck_processor_does_not_hold_a_caller_for_longer(self):
        self.stack.daemon.child.stop()
        with self.stack.another_envoy("--deadline=500ms") as short:
            reply = call(short.address, CHARGE, self.key, b"pay", timeout=20)
        self.assertIn(reply.code, ("DEADLINE_EXCEEDED", "UNAVAILABLE"), reply)
        self.stack.daemon.child.resume()
        self.assertEqual(self.executions(), 0)

    def test_a_lost_attempt_is_taken_over_after_its_lease(self):
        running = self.started(method=TAKEN_OVER)
        self.stack.daemon.kill()
        self.assertNotEqual(reply_to(running).code, "OK")
        self.upstream.release()
        self.stack.daemon.start()
        for _ in range(200):
            reply = self.until_ok(b"hold", TAKEN_OVER)
            if reply.code == "OK":
                break
        self.assertEqual((reply.code, self.executions()), ("OK", 2), reply)

    def test_a_frozen_processor_fails_closed(self):
        self.assertEqual(self.stack.call(self.key, b"pay").code, "OK")
        self.stack.daemon.child.stop()
        frozen = str(uuid.uuid4())
        reply = self.stack.call(frozen, b"pay", timeout=FROZEN_WITHIN_S)
        self.assertEqual(reply.code, "UNAVAILABLE", reply)
        self.assertEqual(self.upstream.executions(frozen), 0)
        self.stack.daemon.child.resume()
        self.assertTrue(self.until_ok(b"pay").replayed)


if __name__ == "__main__":
    unittest.main()

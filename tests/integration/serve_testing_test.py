#!/usr/bin/env python3
"""`idempotencyd serve-testing`: the examples of docs/testing_your_service.md and of
docs/other_languages.md as they stand, worlds over the wire, and when the process ends.

usage: serve_testing_test.py BIN_FOLDER PROJECT_ROOT
"""

import collections
import contextlib
import importlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import uuid
from concurrent import futures
from unittest import mock

import grpc

BIN, ROOT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
DAEMON = BIN / "idempotencyd"
SOME_SECONDS = 30


def blocks_of(page):
    """The commands and programs of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```(?:sh|python)\n(.*?)^```", text, re.M | re.S)


# As google.rpc.Status, which Debian does not have.
STATUS_PROTO = """syntax = "proto3";
package testing;
import "google/protobuf/any.proto";
message Status { int32 code = 1; string message = 2; repeated google.protobuf.Any details = 3; }
"""
PROTOC, EXAMPLE, RUN = blocks_of("testing_your_service.md")


def shell(text, folder):
    """What a shell prints into which the text is pasted."""
    done = subprocess.run(
        ["bash", "-euc", text], cwd=folder, capture_output=True, text=True, check=False,
        timeout=120, env={**os.environ, "PATH": f"{BIN}:/usr/bin:/bin", "PROTOS": str(ROOT / "proto")})
    if done.returncode != 0:
        raise AssertionError(done.stdout + done.stderr)
    return done.stdout + done.stderr


def started(*flags, **options):
    """A server and its address."""
    # pylint: disable=consider-using-with
    server = subprocess.Popen([DAEMON, "serve-testing", *flags], stdout=subprocess.PIPE, text=True,
                              **options)
    line = server.stdout.readline()
    found = re.fullmatch(r"idempotencyd: serving tests on (127\.0\.0\.1:(\d+))\n", line)
    assert found, line
    return server, found[1]


def ended(pid):
    """Waits until a process that is no child has ended."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], SOME_SECONDS)[0])
    finally:
        os.close(process)


class Refusal(grpc.RpcError):
    """As a stub raises it."""

    def __init__(self, code, cause="", reason="", details="refused by daemon-7.internal"):
        super().__init__()
        self._code = code
        self._cause = cause
        self._reason = reason or (cause and "RESERVATION_LOST")
        self._details = details

    def code(self):
        return self._code

    def details(self):
        return self._details

    def trailing_metadata(self):
        if not self._reason:
            return ()
        # pylint: disable=import-error, import-outside-toplevel
        import status_pb2
        from google.rpc import error_details_pb2
        status = status_pb2.Status(code=self._code.value[0], message="lost")
        status.details.add().Pack(error_details_pb2.ErrorInfo(
            reason=self._reason, domain="grpc-idempotency.dev",
            metadata={"cause": self._cause} if self._cause else {}))
        return (("grpc-status-details-bin", status.SerializeToString()),)


class Leaver:
    """A caller who leaves when the test says so."""

    def __init__(self):
        self.left = threading.Event()

    def is_active(self):
        return not self.left.is_set()

    def time_remaining(self):
        return None


class Status(Exception):
    """A call that was ended."""


class Context:
    """Of a call of a service that uses the page's example."""

    def set_trailing_metadata(self, trailers):
        pass

    def abort(self, code, details):
        raise Status(f"{code.name}: {details}")


class Answered:
    """What a caller gets."""

    def __init__(self, call, key, request):
        # pylint: disable=import-error, import-outside-toplevel
        import status_pb2
        from google.rpc import error_details_pb2
        self.body, self.info, self.retry_delay = None, error_details_pb2.ErrorInfo(), None
        try:
            self.body, done = call.with_call(request.encode(), timeout=SOME_SECONDS,
                                             metadata=[("idempotency-key", key)])
        except grpc.RpcError as refused:
            done = refused
        self.code, self.message = done.code(), done.details()
        self.trailers = dict(done.trailing_metadata())
        packed = status_pb2.Status.FromString(self.trailers.pop("grpc-status-details-bin", b""))
        for each in packed.details:
            retry = error_details_pb2.RetryInfo()
            each.Unpack(self.info)
            if each.Unpack(retry):
                self.retry_delay = retry.retry_delay.ToMilliseconds()
        self.reason = self.info.reason or None


def refusing(code, reason=""):
    """A method that refuses each request; with None it succeeds."""
    def method(_request, timeout):  # pylint: disable=unused-argument
        if code:
            raise Refusal(code, reason=reason)
    return method


class ServeTestingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="idempotency-serve-testing.")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        shell(PROTOC, cls.folder)
        pathlib.Path(cls.folder, "status.proto").write_text(STATUS_PROTO, encoding="utf-8")
        shell(f"protoc -I. -I{ROOT}/core/reflection --python_out=. status.proto"
              " google/rpc/error_details.proto", cls.folder)
        sys.path.insert(0, cls.folder)
        # pylint: disable=import-error, import-outside-toplevel
        from google.protobuf import duration_pb2
        from idempotency.testing.v1 import testing_service_pb2, testing_service_pb2_grpc
        from idempotency.v1 import idempotency_service_pb2, idempotency_service_pb2_grpc, record_pb2
        cls.pb, cls.records, cls.control = idempotency_service_pb2, record_pb2, testing_service_pb2
        cls.duration = duration_pb2.Duration
        cls.server, address = started()
        cls.addClassCleanup(cls.stop)
        cls.channel = grpc.insecure_channel(address, cls.channel_options())
        cls.service = idempotency_service_pb2_grpc.IdempotencyServiceStub(cls.channel)
        cls.testing = testing_service_pb2_grpc.TestingServiceStub(cls.channel)

    @staticmethod
    def channel_options():
        """Those of docs/other_languages.md."""
        charge = blocks_of("other_languages.md")[2]
        name, size = re.search(r'^options = \[\("(.*)", 16 << (\d+)\)\]$', charge, re.M).groups()
        return [(name, 16 << int(size))]

    @classmethod
    def stop(cls):
        cls.channel.close()
        cls.server.terminate()
        cls.server.communicate(timeout=SOME_SECONDS)
        assert cls.server.returncode == 0

    def request(self, key="order-1"):
        return self.pb.ReserveRequest(
            record_key=self.records.RecordKey(namespace="payments", scope="t", operation="/p/C",
                                              key=key),
            fingerprints=[self.records.Fingerprint(version=1, digest=bytes(32))],
            on_lease_expiry="LEASE_EXPIRY_TAKE_OVER")

    def reserve(self, world):
        return self.service.Reserve(self.request(), timeout=SOME_SECONDS,
                                    metadata=world).WhichOneof("verdict")

    def advance(self, world, seconds):
        return self.testing.AdvanceClock(
            self.control.AdvanceClockRequest(by=self.duration(seconds=seconds)), metadata=world)

    def world(self):
        return [("idempotency-test-world", self.id())]

    def test_the_example_passes(self):
        with tempfile.TemporaryDirectory() as folder:
            shell(PROTOC, folder)
            pathlib.Path(folder, "expiry_test.py").write_text(EXAMPLE, encoding="utf-8")
            self.assertIn("Ran 2 tests", shell(RUN, folder))

    def test_the_example_of_other_languages_charges_once(self):
        protoc, once, charge, run, _ = blocks_of("other_languages.md")
        with tempfile.TemporaryDirectory() as folder:
            shell(protoc, folder)
            pathlib.Path(folder, "once.py").write_text(once, encoding="utf-8")
            pathlib.Path(folder, "charge.py").write_text(charge, encoding="utf-8")
            printed = shell(run, folder)
            for line in re.findall(r"(?m)^#> (.*)$", run):
                self.assertIn(line, printed)

    def test_the_example_refuses_a_replay_without_its_content(self):
        """A recorded error has its code and message all the same."""
        once = self.once_of_the_page()
        for code, body, returned in ((0, b"", False), (5, b"", True), (0, bytes(6 << 20), True),
                                     (0, bytes(9 << 20), False)):
            content = "REPLY_CONTENT_FULL" if body else "REPLY_CONTENT_STATUS_ONLY"
            reply = self.records.Reply(code=code, body=body, content=content)
            key = self.request(f"{self.id()} {code} {len(body)}".replace(" ", "/")).record_key

            def repeat(key=key, reply=reply):
                return once.once(self.service, key, once.fingerprint("/p/C", b""), lambda _lost: reply).reply

            self.assertEqual(repeat(), reply)
            if returned:
                self.assertEqual(repeat(), reply)
            else:
                with self.assertRaisesRegex(once.NotRun, "reply_not_kept"):
                    repeat()

    def test_the_example_gives_back_a_grant_whose_answer_was_lost(self):
        """Also if the tries after it got a refusal that did nothing."""
        once = self.once_of_the_page()
        gave_up, released = threading.Event(), threading.Event()
        tries = []

        def reserve(_request, timeout):  # pylint: disable=unused-argument
            tries.append("reserve")
            if gave_up.is_set():
                return self.granted()
            raise Refusal(grpc.StatusCode.UNAVAILABLE if len(tries) == 1 else
                          grpc.StatusCode.RESOURCE_EXHAUSTED)

        def release(request, timeout):  # pylint: disable=unused-argument
            self.assertEqual(request.outcome, self.pb.RELEASE_OUTCOME_NOTHING_HAPPENED)
            tries.append("release")
            released.set()

        service = types.SimpleNamespace(Reserve=reserve, Release=release)
        with mock.patch.object(once, "RESERVE_S", 0.5), self.assertRaises(grpc.RpcError):
            once.reserved(service, self.request())
        gave_up.set()
        self.assertTrue(released.wait(SOME_SECONDS))
        self.assertEqual(tries.count("release"), 1)

    def test_the_example_runs_no_undecided_record_of_another_guard(self):
        """The policy that counts is the record's."""
        once, ran = self.once_of_the_page(), []

        def elsewhere(name, expiry, lease_ms=30000):
            """A grant of another guard."""
            request = self.request(f"{self.id()}/{name}")
            request.on_lease_expiry = self.records.LeaseExpiry.Value(f"LEASE_EXPIRY_{expiry}")
            request.lease.FromMilliseconds(lease_ms)
            del request.fingerprints[:]
            request.fingerprints.append(once.fingerprint("/p/C", b""))
            return request.record_key, self.service.Reserve(request).reserved.reservation_token

        def work(_lost):
            ran.append("work")
            return self.records.Reply()

        def repeat(key, service=self.service):
            return once.once(service, key, once.fingerprint("/p/C", b""), work)

        lapsed, _ = elsewhere("lapsed", "TAKE_OVER", lease_ms=100)
        released, token = elsewhere("released", "TAKE_OVER")
        self.service.Release(self.pb.ReleaseRequest(record_key=released, reservation_token=token))
        time.sleep(0.3)
        for key in (lapsed, lapsed, released, released):
            with self.assertRaisesRegex(once.NotRun, "outcome_unknown"):
                repeat(key)
        self.assertEqual(ran, [])

        definite, token = elsewhere("definite", "REQUIRE_RECOVERY")
        self.service.Release(self.pb.ReleaseRequest(record_key=definite, reservation_token=token))
        service = types.SimpleNamespace(Reserve=self.service.Reserve, Release=self.service.Release,
                                        Get=refusing(grpc.StatusCode.PERMISSION_DENIED))
        with self.assertRaisesRegex(once.NoEffect, "policy"):
            repeat(definite, service)
        self.assertEqual(ran, [])
        repeat(definite)
        self.assertEqual(ran, ["work"])

    def test_the_example_gives_back_an_undecided_grant_as_unknown(self):
        once, outcomes = self.once_of_the_page(), []
        for previous in ("RELEASED", "LEASE_EXPIRED", "OUTCOME_UNKNOWN"):
            verdict = self.granted()
            verdict.reserved.previous_attempt = self.pb.PreviousAttempt.Value(f"PREVIOUS_ATTEMPT_{previous}")
            service = types.SimpleNamespace(
                Reserve=lambda _request, timeout, verdict=verdict: verdict,
                Release=lambda request, timeout: outcomes.append(request.outcome))
            once.give_back(service, self.request())
        self.assertEqual(outcomes, [self.pb.RELEASE_OUTCOME_NOTHING_HAPPENED,
                                    *2 * [self.pb.RELEASE_OUTCOME_OUTCOME_UNKNOWN]])

    def test_the_example_repeats_a_reserve_that_a_proxy_failed(self):
        once = self.once_of_the_page()
        for code in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
            with self.subTest(code=code):
                tries = []

                def reserve(request, timeout, code=code, tries=tries):
                    tries.append(request)
                    done = self.service.Reserve(request, timeout=timeout)
                    if len(tries) == 1:
                        raise Refusal(code)
                    return done

                verdict = once.reserved(types.SimpleNamespace(Reserve=reserve),
                                        self.token_request(f"{self.id()}/{code.name}"))
                self.assertEqual((verdict.reserved.attempt, len(tries)), (1, 2))

    def token_request(self, key):
        request = self.request(key)
        request.request_token = str(uuid.uuid4())
        return request

    def test_the_example_refuses_at_once_without_a_connection(self):
        """Then nothing is to be given back, and no thread of the server is held."""
        # pylint: disable=import-error, import-outside-toplevel
        from idempotency.v1 import idempotency_service_pb2_grpc
        once, tries = self.once_of_the_page(), []
        for policy in ("pick_first", "round_robin"):
            config = json.dumps({"loadBalancingConfig": [{policy: {}}]})
            with socket.socket() as refusing_port:  # bound, and not listening
                refusing_port.bind(("127.0.0.1", 0))
                with grpc.insecure_channel("127.0.0.1:%d" % refusing_port.getsockname()[1],
                                           [("grpc.service_config", config)]) as channel:
                    stub = idempotency_service_pb2_grpc.IdempotencyServiceStub(channel)

                    def reserve(request, timeout, stub=stub):
                        tries.append(request)
                        return stub.Reserve(request, timeout=timeout)

                    tries.clear()
                    with self.subTest(policy=policy), mock.patch.object(once, "in_background", self.fail):
                        with self.assertRaises(grpc.RpcError) as refused:
                            once.reserved(types.SimpleNamespace(Reserve=reserve), self.request())
                        self.assertEqual((refused.exception.code(), len(tries)),
                                         (grpc.StatusCode.UNAVAILABLE, 1))

    def test_the_example_gives_back_many_grants(self):
        once, thawed = self.once_of_the_page(), threading.Event()
        released = threading.Semaphore(0)

        def reserve(_request, timeout):  # pylint: disable=unused-argument
            if not thawed.wait(0.01):
                raise Refusal(grpc.StatusCode.UNAVAILABLE)
            return self.granted()

        service = types.SimpleNamespace(Reserve=reserve, Release=lambda _request, timeout: released.release())
        with mock.patch.object(once, "RESERVE_S", 0.01):
            for number in range(64):
                with self.assertRaises(grpc.RpcError):
                    once.reserved(service, self.request(f"order-{number}"))
        thawed.set()
        for _ in range(64):
            self.assertTrue(released.acquire(timeout=SOME_SECONDS))

    def test_the_example_counts_what_it_does_not_settle(self):
        once = self.once_of_the_page()
        service = types.SimpleNamespace(Reserve=refusing(grpc.StatusCode.UNAVAILABLE))
        with mock.patch.object(once, "RESERVE_S", 0.01), mock.patch.object(once, "unsettled", collections.Counter()), \
                mock.patch.object(once, "giving_back", threading.Semaphore(0)), self.assertLogs("idempotency"):
            with self.assertRaises(grpc.RpcError):
                once.reserved(service, self.request())
            self.assertEqual(once.unsettled["reservations"], 1)

    def test_the_example_repeats_a_complete_that_is_refused_for_now(self):
        once, codes = self.once_of_the_page(), grpc.StatusCode
        for number, refused in enumerate((
                Refusal(codes.UNAUTHENTICATED, reason="CREDENTIALS_INVALID"),
                Refusal(codes.PERMISSION_DENIED, reason="ACCESS_DENIED"), Refusal(codes.INTERNAL),
                Refusal(codes.UNKNOWN), Refusal(codes.UNIMPLEMENTED), Refusal(codes.FAILED_PRECONDITION))):
            tries = []

            def complete(request, timeout, refused=refused, tries=tries):
                tries.append(request)
                if len(tries) == 1:
                    raise refused
                return self.service.Complete(request, timeout=timeout)

            service = types.SimpleNamespace(Reserve=self.service.Reserve, Complete=complete)
            key = self.request(f"{self.id()}/{number}").record_key
            with self.subTest(code=refused.code()):
                for _ in range(2):
                    answered = once.once(service, key, once.fingerprint("/p/C", b""),
                                         lambda _lost: self.records.Reply(body=b"charged"))
                    self.assertEqual(answered.reply.body, b"charged")
                self.assertEqual(len(tries), 2)

    def test_the_example_records_a_reply_after_its_caller_was_refused(self):
        once = self.once_of_the_page()
        corrected = threading.Event()

        def complete(request, timeout):
            if not corrected.is_set():
                raise Refusal(grpc.StatusCode.PERMISSION_DENIED, reason="ACCESS_DENIED")
            return self.service.Complete(request, timeout=timeout)

        service = types.SimpleNamespace(Reserve=self.service.Reserve, Complete=complete)
        key = self.request(self.id()).record_key

        def repeat():
            return once.once(service, key, once.fingerprint("/p/C", b""),
                             lambda _lost: self.records.Reply(body=b"charged"))

        with mock.patch.object(once, "ANSWER_S", 0.2), self.assertRaises(once.NotRecorded):
            repeat()
        self.assertFalse(once.wait_settled(0))
        corrected.set()
        self.assertTrue(once.wait_settled(SOME_SECONDS))
        self.assertIn(("idempotency-replayed", "true"), repeat().trailers)

    def test_the_example_records_a_refused_reply_without_its_content(self):
        once = self.once_of_the_page()

        def complete(request, timeout):
            if request.reply.body:
                raise Refusal(grpc.StatusCode.INVALID_ARGUMENT, reason="REQUEST_INVALID")
            return self.service.Complete(request, timeout=timeout)

        service = types.SimpleNamespace(Reserve=self.service.Reserve, Complete=complete)
        key = self.request(self.id()).record_key

        def repeat():
            return once.once(service, key, once.fingerprint("/p/C", b""),
                             lambda _lost: self.records.Reply(body=b"charged"))

        self.assertEqual(repeat().reply.body, b"charged")
        with self.assertRaisesRegex(once.NotRun, "reply_not_kept"):
            repeat()

    def test_the_example_runs_nothing_for_a_caller_who_left(self):
        once, caller, outcomes = self.once_of_the_page(), Leaver(), []

        def reserve(_request, timeout):  # pylint: disable=unused-argument
            caller.left.set()
            return self.granted()

        service = types.SimpleNamespace(
            Reserve=reserve, Release=lambda request, timeout: outcomes.append(request.outcome))
        with self.assertRaisesRegex(once.NoEffect, "caller"):
            once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), self.fail, caller)
        self.assertEqual(outcomes, [self.pb.RELEASE_OUTCOME_NOTHING_HAPPENED])

    def test_the_example_repeats_nothing_for_a_caller_who_left(self):
        once, caller, tries = self.once_of_the_page(), Leaver(), []

        def reserve(_request, timeout):  # pylint: disable=unused-argument
            tries.append("reserve")
            caller.left.set()
            raise Refusal(grpc.StatusCode.UNAVAILABLE)

        with mock.patch.object(once, "in_background") as given_back, self.assertRaises(grpc.RpcError):
            once.reserved(types.SimpleNamespace(Reserve=reserve), self.request(), caller)
        self.assertEqual((tries, given_back.call_count), (["reserve"], 1))

    def test_the_example_ends_its_tries_with_the_deadline_of_the_caller(self):
        once, timeouts = self.once_of_the_page(), []

        def reserve(_request, timeout):
            timeouts.append(timeout)
            raise Refusal(grpc.StatusCode.DEADLINE_EXCEEDED)

        caller = types.SimpleNamespace(is_active=lambda: True, time_remaining=lambda: 0.05)
        with mock.patch.object(once, "in_background"), self.assertRaises(grpc.RpcError):
            once.reserved(types.SimpleNamespace(Reserve=reserve), self.request(), caller)
        self.assertEqual(len(timeouts), 1)
        self.assertLessEqual(timeouts[0], 0.05)

    def test_the_example_signals_to_its_work_that_the_lease_is_over(self):
        """Also if the service is away."""
        once = self.once_of_the_page()
        verdict = self.granted()
        verdict.reserved.lease_remaining.FromMilliseconds(500)
        seen = []

        def work(lost):
            seen.append(lost.wait(SOME_SECONDS))
            return self.records.Reply()

        for refused in (Refusal(grpc.StatusCode.UNAVAILABLE), Refusal(grpc.StatusCode.FAILED_PRECONDITION, "RELEASED")):
            def extend(_request, timeout, refused=refused):  # pylint: disable=unused-argument
                raise refused

            service = types.SimpleNamespace(
                Reserve=lambda _request, timeout: verdict, Extend=extend,
                Complete=lambda _request, timeout: self.pb.CompleteResponse())
            once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), work)
        self.assertEqual(seen, [True, True])

    def test_the_example_sends_no_effect_although_the_record_is_gone(self):
        """A retry may run."""
        once = self.once_of_the_page()

        def release(_request, timeout):  # pylint: disable=unused-argument
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, "RECORD_EXPIRED")

        def work(_lost):
            raise once.NoEffect("the bank is closed")

        service = types.SimpleNamespace(Reserve=lambda _request, timeout: self.granted(), Release=release)
        with self.assertRaisesRegex(once.NoEffect, "closed"):
            once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), work)

    def test_the_example_has_terms_of_its_records(self):
        once = self.once_of_the_page()
        key = self.request(self.id()).record_key
        once.once(self.service, key, once.fingerprint("/p/C", b""), lambda _lost: self.records.Reply(),
                  retention=self.duration(seconds=7 * 86400))
        record = self.service.Get(self.pb.GetRequest(record_key=key)).record
        self.assertEqual(record.expires_at.ToSeconds() - record.created_at.ToSeconds(), 7 * 86400)

    def test_the_example_begins_no_work_after_its_lease(self):
        once, outcomes = self.once_of_the_page(), []
        verdict = self.granted()
        verdict.reserved.lease_remaining.FromMilliseconds(10)

        def reserve(_request, timeout):  # pylint: disable=unused-argument
            time.sleep(0.1)  # as if the process was stopped
            return verdict

        service = types.SimpleNamespace(
            Reserve=reserve, Release=lambda request, timeout: outcomes.append(request.outcome))
        with self.assertRaisesRegex(once.NoEffect, "lease"):
            once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), self.fail)
        self.assertEqual(outcomes, [self.pb.RELEASE_OUTCOME_NOTHING_HAPPENED])

    def test_the_example_extends_no_lease_of_work_that_hangs(self):
        once, extended = self.once_of_the_page(), []

        def extend(_request, timeout):  # pylint: disable=unused-argument
            extended.append("extend")
            return self.pb.ExtendResponse(lease_remaining=self.duration(seconds=30))

        def work(lost):
            self.assertTrue(lost.wait(SOME_SECONDS))
            return self.records.Reply()

        service = types.SimpleNamespace(
            Reserve=lambda _request, timeout: self.granted(), Extend=extend,
            Complete=lambda _request, timeout: self.pb.CompleteResponse())
        with mock.patch.object(once, "LEASE_S", 0.3), mock.patch.object(once, "WORK_S", 0.25), \
                mock.patch.object(once.duration_pb2, "Duration", lambda seconds: self.duration(seconds=1)):
            once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), work)
        self.assertLessEqual(len(extended), 2)

    def test_the_example_leaves_out_metadata_that_complete_refuses(self):
        once = self.once_of_the_page()
        key = self.request(self.id()).record_key
        sent = [self.records.MetadataEntry(key=name, value=value.encode()) for name, value in (
            (":authority", "a"), ("X-Upper", "a"), ("x-note", "M\u00fcller"), ("x-note", "a\nb"),
            ("x-note-bin", "M\u00fcller"), ("x-note", "ok ~"))]
        for _ in range(2):
            reply = once.once(
                self.service, key, once.fingerprint("/p/C", b""),
                lambda _lost: self.records.Reply(initial_metadata=sent, trailing_metadata=sent)).reply
            for metadata in (reply.initial_metadata, reply.trailing_metadata):
                self.assertEqual(list(metadata), sent[-2:])

    def test_the_example_refuses_nothing_for_good_after_the_work(self):
        """A client would read a definite code as "not charged"."""
        once, calls = self.once_of_the_page(), self.calls_of_the_page()

        def failing_work(_lost):
            raise ValueError("after the charge")

        def refused_work(_lost):
            """A bank refuses a later step, after the charge."""
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION)

        def idle_work(_lost):
            raise once.NoEffect("before the charge")

        codes = grpc.StatusCode

        def done_work(_lost):
            return self.records.Reply()

        for method, code, reason, work, refused in (
                ("Release", None, "", refused_work, "UNAVAILABLE"),
                ("Release", None, "", idle_work, "UNAVAILABLE"),
                ("Release", codes.FAILED_PRECONDITION, "RESERVATION_LOST", failing_work, "ABORTED"),
                ("Release", codes.INVALID_ARGUMENT, "REQUEST_INVALID", failing_work, "UNAVAILABLE"),
                ("Complete", codes.FAILED_PRECONDITION, "RESERVATION_LOST", done_work, "ABORTED"),
                ("Complete", codes.INVALID_ARGUMENT, "REQUEST_INVALID", done_work, "UNAVAILABLE"),
                ("Complete", codes.DATA_LOSS, "RECORD_DAMAGED", done_work, "UNAVAILABLE")):
            service = types.SimpleNamespace(
                Reserve=lambda _request, timeout: self.granted(), **{method: refusing(code, reason)})
            with self.subTest(method=method, code=code):
                with self.assertRaises(
                        (once.Lost, once.NotRecorded, once.NoEffect, grpc.RpcError)) as raised:
                    once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), work)
                with self.assertRaisesRegex(Status, refused):
                    calls.refuse(Context(), raised.exception)
        # Of Reserve: nothing ran.
        with self.assertRaisesRegex(Status, "DATA_LOSS"):
            calls.refuse(Context(), Refusal(codes.DATA_LOSS))
        for error in (Refusal(codes.PERMISSION_DENIED), self.with_record(once.NotRecorded("at daemon-7.internal")),
                      self.with_record(once.Lost("at daemon-7.internal"))):
            with self.assertRaises(Status) as ended_with:
                calls.refuse(Context(), error)
            self.assertNotIn("daemon-7", str(ended_with.exception))

    @staticmethod
    def with_record(error):
        error.record_id = "r"
        return error

    def test_the_example_records_only_codes_that_are_an_outcome(self):
        once = self.once_of_the_page()

        def another_guards_refusal(_lost):
            refused = Refusal(grpc.StatusCode.FAILED_PRECONDITION, "RELEASED").trailing_metadata()
            return self.records.Reply(code=9, details=refused[0][1])

        pushback = self.records.MetadataEntry(key="grpc-retry-pushback-ms", value=b"-1")
        works = [lambda _lost, code=code: self.records.Reply(code=code, message="own", trailing_metadata=[pushback])
                 for code in (1, 2, 4, 8, 10, 12, 13, 14, 15, 16)]
        for number, work in enumerate((*works, another_guards_refusal, lambda _lost: "no Reply")):
            key = self.request(f"{self.id()}/{number}").record_key
            with self.subTest(number=number):
                if number > len(works):
                    with self.assertRaises(once.NotRecorded):
                        once.once(self.service, key, once.fingerprint("/p/C", b""), work)
                else:  # its own status, which no client takes as final
                    answered = once.once(self.service, key, once.fingerprint("/p/C", b""), work)
                    self.assertEqual(answered.reply, work(None))
                    trailers = dict(answered.trailers)
                    self.assertTrue(trailers.pop("idempotency-record"))
                    self.assertEqual(trailers, {"grpc-retry-pushback-ms": "-1"} if number < len(works) else {})
                with self.assertRaisesRegex(once.NotRun, "outcome_unknown"):
                    once.once(self.service, key, once.fingerprint("/p/C", b""), work)

    def test_the_example_answers_if_the_record_is_gone(self):
        """No record can contradict the reply; a retry would run again."""
        once = self.once_of_the_page()

        def run(code, cause, extended=None):
            def complete(_request, timeout):  # pylint: disable=unused-argument
                raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, cause)

            def extend(_request, timeout):  # pylint: disable=unused-argument
                refused.set()
                raise Refusal(grpc.StatusCode.FAILED_PRECONDITION, extended)

            def work(_lost):
                self.assertTrue(extended is None or refused.wait(SOME_SECONDS))
                return self.records.Reply(code=code)

            refused = threading.Event()
            service = types.SimpleNamespace(Complete=complete, Extend=extend,
                                            Reserve=lambda _request, timeout: self.granted())
            with mock.patch.object(once, "LEASE_S", 1 if extended else 30):
                return once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), work)

        for code, forbidden in ((0, {}), (9, {"grpc-retry-pushback-ms": "-1"})):
            for extended in (None, "RECORD_EXPIRED", "OUTCOME_UNKNOWN"):
                answered = run(code, "RECORD_EXPIRED", extended)
                self.assertEqual((answered.reply.code, dict(answered.trailers)),
                                 (code, {"idempotency-record": "r", **forbidden}))
        for cause in ("SUPERSEDED", "COMPLETED", "RELEASED"):
            for causes in ((cause, None), ("RECORD_EXPIRED", cause)):
                with self.subTest(causes=causes), self.assertRaises(once.Lost):
                    run(0, *causes)

    def test_the_example_gives_back_a_grant_without_a_thread(self):
        once = self.once_of_the_page()
        key = self.request(self.id()).record_key

        def repeat():
            return once.once(self.service, key, once.fingerprint("/p/C", b""),
                             lambda _lost: self.records.Reply(body=b"charged"))

        with mock.patch.object(threading.Thread, "start", side_effect=RuntimeError("no thread")):
            with self.assertRaises(once.NoEffect):
                repeat()
        self.assertEqual(repeat().reply.body, b"charged")

    def test_the_example_replays_what_another_guard_recorded(self):
        once, calls = self.once_of_the_page(), self.calls_of_the_page()
        entries = [self.records.MetadataEntry(key=name, value=b"1S") for name in (
            "grpc-timeout", "grpc-internal-encoding-request", "idempotency-replayed", "x-note")]

        def replayed(**reply):
            reply = self.records.Reply(**reply)
            verdict = self.pb.ReserveResponse(record_id="r", replay=self.pb.Replay(reply=reply))
            service = types.SimpleNamespace(Reserve=lambda _request, timeout: verdict)
            return once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), None)

        for content in ("REPLY_CONTENT_STATUS_ONLY", "REPLY_CONTENT_REFERENCE", 77):
            with self.subTest(content=content), self.assertRaisesRegex(once.NotRun, "reply_not_kept"):
                replayed(content=content)
        for content, mark in (("REPLY_CONTENT_UNSPECIFIED", None), ("REPLY_CONTENT_FULL", None),
                              ("REPLY_CONTENT_REDACTED", "redacted")):
            self.assertEqual(dict(replayed(content=content).trailers).get("idempotency-content"), mark)

        context = mock.Mock()
        calls.answer(context, replayed(initial_metadata=entries, trailing_metadata=entries))
        context.send_initial_metadata.assert_called_once_with([("x-note", b"1S")])
        (trailers,) = context.set_trailing_metadata.call_args.args
        self.assertEqual([name for name, _ in trailers],
                         ["x-note", "idempotency-record", "idempotency-expires", "idempotency-replayed"])

    def test_the_example_bounds_the_message_of_a_status(self):
        once = self.once_of_the_page()
        key = self.request(self.id()).record_key
        for _ in range(2):
            reply = once.once(self.service, key, once.fingerprint("/p/C", b""),
                              lambda _lost: self.records.Reply(code=9, message="\u20ac" * 5000)).reply
            self.assertEqual(reply.message, "\u20ac" * 341)

    def test_the_example_refuses_an_unknown_outcome_with_any_cause(self):
        """A newer service may have more of them."""
        once, calls = self.once_of_the_page(), self.calls_of_the_page()
        verdict = self.pb.ReserveResponse(record_id="r")
        verdict.outcome_unknown.cause = 77
        with self.assertRaisesRegex(Status, "FAILED_PRECONDITION"):
            calls.refuse(Context(), once.NotRun("outcome_unknown", verdict))

    def test_the_service_config_names_methods(self):
        """A service alone is all of its methods, the unguarded ones too."""
        text = (ROOT / "docs/other_languages.md").read_text(encoding="utf-8")
        config = json.loads(re.search(r"^```json\n(.*?)^```", text, re.M | re.S)[1])
        names = config["methodConfig"][0]["name"]
        self.assertTrue(all(name.get("method") for name in names), names)

    def test_the_methods_of_the_page_answer_as_a_guard(self):
        """With reasons, and with the entries by which a client takes a status as final."""
        once = self.once_of_the_page()
        old_key = str(uuid.UUID(int=(int(time.time() - 3 * 86400) * 1000 << 80) | (7 << 76) | (2 << 62)))
        work = {"result": self.records.Reply(code=0, body=b"charged")}

        def worked(_lost):
            if isinstance(work["result"], Exception):
                raise work["result"]
            return work["result"]

        with self.serving(worked) as charge:
            recorded = {"idempotency-record", "idempotency-expires"}
            first = charge("a", "one")
            self.assertEqual((first.code, first.body, set(first.trailers)),
                             (grpc.StatusCode.OK, b"charged", recorded))
            again = charge("a", "one")
            self.assertEqual((again.body, again.trailers.pop("idempotency-replayed")),
                             (b"charged", "true"))
            self.assertEqual(again.trailers, first.trailers)
            self.assertRegex(first.trailers["idempotency-expires"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

            note = self.records.MetadataEntry(key="x-note", value=b"n")
            work["result"] = self.records.Reply(code=9, message="declined", trailing_metadata=[note])
            recorded.add("x-note")
            for entries in (recorded, recorded | {"idempotency-replayed"}):
                declined = charge("b", "one")
                self.assertEqual((declined.code, declined.message, declined.reason, set(declined.trailers)),
                                 (grpc.StatusCode.FAILED_PRECONDITION, "declined", None, entries))

            self.assert_refused(charge("a", "two"), "FAILED_PRECONDITION", "KEY_REUSED")
            self.assert_refused(charge(old_key, "one"), "FAILED_PRECONDITION", "KEY_EXPIRED")

            work["result"] = ValueError("after the charge")
            self.assert_refused(charge("c", "one"), "UNAVAILABLE", "OUTCOME_NOT_RECORDED")
            unknown = charge("c", "one")
            self.assert_refused(unknown, "FAILED_PRECONDITION", "OUTCOME_UNKNOWN")
            self.assertEqual(unknown.trailers["grpc-retry-pushback-ms"], "-1")
            self.assertEqual((unknown.info.metadata["cause"], unknown.info.metadata["attempt"],
                              unknown.info.metadata["reason"]), ("RELEASED", "1", "ValueError"))

            work["result"] = self.records.Reply(code=0, body=bytes(9 << 20))
            charge("d", "one")
            kept = charge("d", "one")
            self.assert_refused(kept, "FAILED_PRECONDITION", "REPLY_NOT_KEPT")
            self.assertEqual(kept.info.metadata["original_code"], "0")

            work["result"] = once.NoEffect("the bank is closed")
            idle = charge("e", "one")
            self.assertEqual((idle.code, idle.reason, set(idle.trailers)),
                             (grpc.StatusCode.UNAVAILABLE, None, {"idempotency-record"}))
            work["result"] = once.Lost("taken over")
            self.assert_refused(charge("f", "one"), "UNAVAILABLE", "OUTCOME_NOT_RECORDED")

            def busy(_lost):
                refused = charge("g", "one")
                self.assert_refused(refused, "ABORTED", "IN_FLIGHT")
                self.assertEqual(refused.trailers["grpc-retry-pushback-ms"], "1000")
                self.assertGreater(refused.retry_delay, 0)
                return self.records.Reply(code=0, body=b"charged")
            self.during = busy
            with mock.patch.object(once, "WAIT_S", 0):
                self.assertEqual(charge("g", "one").body, b"charged")

            with self.subTest("refused by the service"):
                ahead = str(uuid.UUID(int=(int(time.time() + 3 * 86400) * 1000 << 80) | (7 << 76) | (2 << 62)))
                early = charge(ahead, "one")
                self.assertEqual((early.code, early.reason),
                                 (grpc.StatusCode.INVALID_ARGUMENT, "KEY_INVALID"))

    def test_keys_of_the_page_are_those_of_a_guard(self):
        calls = self.calls_of_the_page()
        upper = "01890A5D-AC96-774B-BCCE-B302099A8057"

        class Call(Context):
            """A call with these keys."""

            def __init__(self, keys):
                self.keys = keys

            def invocation_metadata(self):
                return (("user-agent", "test"), *(("idempotency-key", key) for key in self.keys))

            def set_trailing_metadata(self, trailers):
                self.details = dict(trailers)["grpc-status-details-bin"]

        for keys, key in ((["order-1"], "order-1"), (['"order-1"'], "order-1"),
                          (["order-1", '"order-1"'], "order-1"), ([r'"a\"b\\c,d"'], r'a"b\c,d'),
                          ([upper], upper.lower()), ([upper, upper.lower()], upper.lower()),
                          (["x" * 255], "x" * 255)):
            with self.subTest(keys=keys):
                self.assertEqual(calls.key_of(Call(keys)), key)
        for keys, reason in (([], b"KEY_MISSING"), *(
                (keys, b"KEY_INVALID") for keys in (
                    ["a", "b"], [""], ['""'], ["a b"], ["a,b"], ['a"b'], ['"a'], ['"a" '], [r'"\a"'],
                    ["a", '"'], ["x" * 256], ["\x7f"]))):
            call = Call(keys)
            with self.subTest(keys=keys), self.assertRaisesRegex(Status, "INVALID_ARGUMENT"):
                calls.key_of(call)
            self.assertIn(reason, call.details)

    def assert_refused(self, answer, code, reason):
        """Not as a recorded status."""
        self.assertEqual((answer.code.name, answer.reason, answer.info.domain),
                         (code, reason, "grpc-idempotency.dev"))
        self.assertIn("idempotency-record", answer.trailers)
        self.assertNotIn("idempotency-expires", answer.trailers)

    during = None

    @contextlib.contextmanager
    def serving(self, work):
        """A service whose method is that of the page: a function of key and request."""
        once, calls = self.once_of_the_page(), self.calls_of_the_page()

        def method(request, context):
            key = self.records.RecordKey(namespace="payments", scope=self.id(), operation="/p/C",
                                         key=calls.key_of(context))
            during, self.during = self.during, None
            try:
                answered = once.once(self.service, key, once.fingerprint("/p/C", request),
                                     during or work, context)
            except (once.NotRun, once.Lost, once.NotRecorded, once.NoEffect, grpc.RpcError) as error:
                calls.refuse(context, error)
            return calls.answer(context, answered)

        server = grpc.server(futures.ThreadPoolExecutor(4), options=self.channel_options())
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "p", {"C": grpc.unary_unary_rpc_method_handler(method)}),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            with grpc.insecure_channel(f"127.0.0.1:{port}", self.channel_options()) as channel:
                call = channel.unary_unary("/p/C")
                yield lambda key, request: Answered(call, key, request)
        finally:
            server.stop(None)

    def granted(self):
        return self.pb.ReserveResponse(record_id="r", reserved=self.pb.Reserved(
            reservation_token="token", attempt=1, lease_remaining=self.duration(seconds=30)))

    def module_of_the_page(self, name, block):
        text = blocks_of("other_languages.md")[block]
        pathlib.Path(self.folder, name + ".py").write_text(text, encoding="utf-8")
        return importlib.import_module(name)

    def once_of_the_page(self):
        return self.module_of_the_page("once", 1)

    def calls_of_the_page(self):
        self.once_of_the_page()
        return self.module_of_the_page("calls", 4)

    def test_worlds_have_their_own_records(self):
        other = [("idempotency-test-world", self.id() + "/other")]
        self.assertEqual(self.reserve(self.world()), "reserved")
        self.assertEqual(self.reserve(self.world()), "in_flight")
        self.assertEqual(self.reserve(other), "reserved")
        self.assertEqual(self.reserve(()), "reserved")

    def test_worlds_have_their_own_clock(self):
        other = [("idempotency-test-world", self.id() + "/other")]
        for world in (self.world(), other):
            self.assertEqual(self.reserve(world), "reserved")
        self.advance(self.world(), 31)
        self.assertEqual(self.reserve(self.world()), "reserved")
        self.assertEqual(self.reserve(other), "in_flight")

    def test_reset_empties_one_world(self):
        other = [("idempotency-test-world", self.id() + "/other")]
        for world in (self.world(), other):
            self.assertEqual(self.reserve(world), "reserved")
        self.testing.Reset(self.control.ResetRequest(), metadata=self.world())
        self.assertEqual(self.reserve(self.world()), "reserved")
        self.assertEqual(self.reserve(other), "in_flight")

    def test_a_session_belongs_to_its_world(self):
        self.assertEqual(self.reserve(self.world()), "reserved")
        for world, verdict in ((self.world(), "in_flight"),
                               ([("idempotency-test-world", self.id() + "/other")], "reserved")):
            frame = self.pb.SessionRequest(operations=[
                self.pb.SessionOperation(id=1, reserve=self.request())])
            answers = [answer for response in self.service.Session(
                iter([frame]), timeout=SOME_SECONDS, metadata=world) for answer in response.answers]
            self.assertEqual([answer.reserve.WhichOneof("verdict") for answer in answers], [verdict])

    def test_what_is_no_world_is_refused(self):
        for world in ([("idempotency-test-world", "a b")], [("idempotency-test-world", "")],
                      [("idempotency-test-world", "a"), ("idempotency-test-world", "b")]):
            calls = [lambda w=world: self.reserve(w), lambda w=world: self.advance(w, 1),
                     lambda w=world: list(self.service.Session(iter([]), metadata=w))]
            for call in calls:
                with self.assertRaises(grpc.RpcError) as refused:
                    call()
                self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_time_does_not_go_back(self):
        for seconds in (0, -1, 400 * 365 * 86400):
            with self.assertRaises(grpc.RpcError) as refused:
                self.advance(self.world(), seconds)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_the_default_server_has_no_such_control(self):
        with tempfile.TemporaryDirectory() as folder:
            # pylint: disable=consider-using-with
            server = subprocess.Popen(
                [DAEMON, "serve", f"--store=sqlite:{folder}/r.db", "--listen=127.0.0.1:0",
                 "--metrics="], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            address = server.stdout.readline().split()[-1]
            with grpc.insecure_channel(address) as channel:
                call = channel.unary_unary("/idempotency.testing.v1.TestingService/Reset",
                                           lambda _: b"", lambda _: None)
                with self.assertRaises(grpc.RpcError) as refused:
                    call(None, timeout=SOME_SECONDS)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
            server.terminate()
            server.communicate(timeout=SOME_SECONDS)

    def test_it_listens_on_loopback_only(self):
        for flag in ("--listen=0.0.0.0:0", "--host=0.0.0.0", "--port=0.0.0.0:0", "--port=65536"):
            done = subprocess.run([DAEMON, "serve-testing", flag], capture_output=True, text=True,
                                  check=False, timeout=SOME_SECONDS)
            self.assertEqual(done.returncode, 2, done.stdout)
        server, address = started()
        port = int(address.split(":")[1])
        listening = {line.split()[1] for file in ("/proc/net/tcp", "/proc/net/tcp6")
                     if os.path.exists(file)
                     for line in pathlib.Path(file).read_text(encoding="ascii").splitlines()
                     if line.split()[3] == "0A" and line.split()[1].endswith(f":{port:04X}")}
        self.assertEqual(listening, {f"0100007F:{port:04X}"})
        server.terminate()
        server.communicate(timeout=SOME_SECONDS)

    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = subprocess.run([DAEMON, "serve-testing", f"--port={port}"], capture_output=True,
                                  text=True, check=False, timeout=SOME_SECONDS)
        self.assertEqual(done.returncode, 2)
        self.assertIn(str(port), done.stderr)

    def test_ends_with_its_stdin(self):
        server, _ = started("--exit_with_stdin", stdin=subprocess.PIPE)
        server.stdin.write("ignored\n")
        server.stdin.flush()
        self.assertIsNone(server.poll())
        server.communicate(timeout=SOME_SECONDS)
        self.assertEqual(server.returncode, 0)

    def parent_killed(self, *flags):
        """The pid of a server whose parent was killed."""
        parent = subprocess.Popen(  # pylint: disable=consider-using-with
            [sys.executable, "-c", "import subprocess, sys, signal\n"
             "server = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)\n"
             "server.stdout.readline()\n"
             "print(server.pid, flush=True)\n"
             "signal.pause()", str(DAEMON), "serve-testing", *flags],
            stdout=subprocess.PIPE, text=True)
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
        parent.communicate(timeout=SOME_SECONDS)
        return pid

    def test_ends_with_its_parent(self):
        self.assertTrue(ended(self.parent_killed()))

    def test_outlasts_its_parent_where_that_is_chosen(self):
        pid = self.parent_killed("--exit_with_parent=false")
        process = os.pidfd_open(pid)
        self.assertEqual(select.select([process], [], [], 0.5)[0], [])
        os.kill(pid, signal.SIGTERM)
        self.assertTrue(select.select([process], [], [], SOME_SECONDS)[0])
        os.close(process)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""`idempotencyd serve-testing`: the examples of docs/testing_your_service.md and of
docs/other_languages.md as they stand, worlds over the wire, and when the process ends.

usage: serve_testing_test.py BIN_FOLDER PROJECT_ROOT
"""

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
import types
import unittest
from unittest import mock

import grpc

BIN, ROOT = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
DAEMON = BIN / "idempotencyd"
SOME_SECONDS = 30


def blocks_of(page):
    """The commands and programs of a page."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^```(?:sh|python)\n(.*?)^```", text, re.M | re.S)


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

    def __init__(self, code):
        super().__init__()
        self._code = code

    def code(self):
        return self._code

    def details(self):
        return "refused"

    def trailing_metadata(self):
        return ()


class Status(Exception):
    """A call that was ended."""


class Context:
    """Of a call of a service that uses the page's example."""

    def abort(self, code, _details):
        raise Status(code.name)


def refusing(code):
    """A method that refuses each request; with None it succeeds."""
    def method(_request, timeout):  # pylint: disable=unused-argument
        if code:
            raise Refusal(code)
    return method


class ServeTestingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="idempotency-serve-testing.")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        shell(PROTOC, cls.folder)
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
        protoc, once, charge, run = blocks_of("other_languages.md")
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
                return once.once(self.service, key, once.fingerprint("/p/C", b""), lambda: reply)

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

    def test_the_example_refuses_nothing_for_good_after_the_work(self):
        """A client would read a definite code as "not charged"."""
        once = self.once_of_the_page()

        def failing_work():
            raise ValueError("after the charge")

        def refused_work():
            """A bank refuses a later step, after the charge."""
            raise Refusal(grpc.StatusCode.FAILED_PRECONDITION)

        def idle_work():
            raise once.NoEffect("before the charge")

        codes = grpc.StatusCode
        for method, code, work, refused in (
                ("Release", None, refused_work, "UNAVAILABLE"),
                ("Release", None, idle_work, "UNAVAILABLE"),
                ("Release", codes.FAILED_PRECONDITION, failing_work, "ABORTED"),
                ("Release", codes.INVALID_ARGUMENT, failing_work, "UNAVAILABLE"),
                ("Complete", codes.FAILED_PRECONDITION, self.records.Reply, "ABORTED"),
                ("Complete", codes.INVALID_ARGUMENT, self.records.Reply, "UNAVAILABLE"),
                ("Complete", codes.DATA_LOSS, self.records.Reply, "UNAVAILABLE")):
            service = types.SimpleNamespace(
                Reserve=lambda _request, timeout: self.granted(), **{method: refusing(code)})
            with self.subTest(method=method, code=code):
                with self.assertRaises(
                        (once.Lost, once.NotRecorded, once.NoEffect, grpc.RpcError)) as raised:
                    once.once(service, self.request().record_key, once.fingerprint("/p/C", b""), work)
                with self.assertRaisesRegex(Status, refused):
                    once.refuse(Context(), raised.exception)
        # Of Reserve: nothing ran.
        with self.assertRaisesRegex(Status, "DATA_LOSS"):
            once.refuse(Context(), Refusal(codes.DATA_LOSS))

    def test_the_service_config_names_methods(self):
        """A service alone is all of its methods, the unguarded ones too."""
        text = (ROOT / "docs/other_languages.md").read_text(encoding="utf-8")
        config = json.loads(re.search(r"^```json\n(.*?)^```", text, re.M | re.S)[1])
        names = config["methodConfig"][0]["name"]
        self.assertTrue(all(name.get("method") for name in names), names)

    def granted(self):
        return self.pb.ReserveResponse(reserved=self.pb.Reserved(reservation_token="token"))

    def once_of_the_page(self):
        text = blocks_of("other_languages.md")[1]
        pathlib.Path(self.folder, "once.py").write_text(text, encoding="utf-8")
        return importlib.import_module("once")

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

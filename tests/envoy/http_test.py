"""A REST service behind a real Envoy and idempotencyd: the header Idempotency-Key."""

import json
import os
import tempfile
import threading
import unittest
import uuid

from . import envoy, http2
from .daemon import Daemon
from .http_upstream import HttpUpstream
from .raw_http import send

VERSION = os.environ.get("IDEMPOTENCY_ENVOY", envoy.NEWEST)
ROUTES = """
  http_routes { methods: "POST" path: "/v1/payments" }
  http_routes { methods: "POST" methods: "PATCH" path: "/v1/payments/{id}" }
"""
COOKIES = [("set-cookie", "a=1; Path=/"), ("set-cookie", "b=2; HttpOnly")]
# Common in production: one form for the errors of the proxy.
LOCAL_REPLIES = """
          local_reply_config:
            mappers:
            - filter: {status_code_filter: {comparison: {
                op: GE, value: {default_value: 400, runtime_key: none}}}}
              status_code: 499
            body_format: {json_format: {error: "%LOCAL_REPLY_BODY%"}}
"""
OF_ENVOY = {"date", "server", "x-envoy-upstream-service-time", "connection", "transfer-encoding"}
OF_THE_GUARD = {"idempotency-record", "idempotency-expires", "idempotency-replayed"}


class HttpTest(unittest.TestCase):

    def setUp(self):
        self.key = str(uuid.uuid4())
        self.held = threading.Event()
        self.running = threading.Event()
        self.answer = (201, [*COOKIES, ("content-type", "application/json")], b'{"id": 17}')
        self.upstream = HttpUpstream(self.reply)
        self.addCleanup(self.upstream.close)
        self.addCleanup(self.held.set)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.daemon = Daemon(folder.name, ROUTES)
        self.addCleanup(self.daemon.close)
        self.config = envoy.configuration(
            "--http_routes=POST /v1/payments,POST|PATCH /v1/payments/{id}",
            f"--upstream={self.upstream.address}", f"--processor={self.daemon.processor}",
            f"--envoy_version={envoy.minor(VERSION)}")
        self.envoy = envoy.Envoy(self.config, VERSION)
        self.addCleanup(self.envoy.close)

    def reply(self, request):
        if "x-hold" in request.headers:
            self.running.set()
            self.held.wait(30)
        return self.answer

    def send(self, body=b'{"cents": 500}', key="", path="/v1/payments", method="POST", headers=()):
        keys = [("idempotency-key", self.key if key == "" else key)] if key is not None else []
        return send(self.envoy.address, method, path, [*keys, ("x-tenant", "shop"), *headers], body)

    @staticmethod
    def whole(reply):
        """What a replay must have unchanged."""
        status, headers, body = reply
        kept = sorted((name.lower(), value) for name, value in headers
                      if name.lower() not in OF_ENVOY | OF_THE_GUARD)
        return status, [pair for pair in kept if pair[0] != "content-length"], body

    def assert_problem(self, reply, status):
        self.assertEqual(reply[0], status, reply)
        headers = {name.lower(): value for name, value in reply[1]}
        self.assertEqual(headers.get("content-type"), "application/problem+json")
        self.assertEqual(json.loads(reply[2])["status"], status)
        return headers

    def test_a_reply_is_replayed_with_every_header(self):
        first = self.send()
        replay = self.send()
        self.assertEqual(first[0], 201)
        self.assertEqual(self.whole(replay), self.whole(first))
        cookies = [value for name, value in replay[1] if name.lower() == "set-cookie"]
        self.assertEqual(sorted(cookies), [value for _, value in COOKIES])
        self.assertIn("idempotency-replayed", {name.lower() for name, _ in replay[1]})
        self.assertEqual(len(self.upstream.requests), 1)

    def test_a_caller_with_http2_reaches_a_service_with_http1(self):
        headers = [("idempotency-key", self.key), ("x-tenant", "shop")]
        first = http2.send(self.envoy.address, "POST", "/v1/payments", headers, b"{}")
        replay = http2.send(self.envoy.address, "POST", "/v1/payments", headers, b"{}")
        self.assertEqual((first[0], first[2]), (201, b'{"id": 17}'))
        self.assertIn(("idempotency-replayed", "true"), replay[1])
        self.assertEqual(self.whole(replay), self.whole(first))
        self.assertEqual(len(self.upstream.requests), 1)

    def test_a_reply_without_a_content_type_is_replayed_without_one(self):
        self.answer = (201, [("location", "/v1/payments/17")], b"17")
        first = self.send()
        self.assertEqual(self.whole(self.send()), self.whole(first))

    def test_envoys_format_of_its_own_answers_is_not_one_of_replays(self):
        # To Envoy a refusal of the guard is one of its own, but a replay must not be.
        manager = "          stat_prefix: guarded\n"
        self.assertIn(manager, self.config)
        with envoy.Envoy(self.config.replace(manager, manager + LOCAL_REPLIES), VERSION) as proxy:
            self.envoy = proxy
            for self.answer in ((201, [("content-type", "application/json")], b'{"id": 17}'),
                                (402, [("content-type", "text/plain")], b"no money")):
                with self.subTest(self.answer[0]):
                    self.key = str(uuid.uuid4())
                    first = self.send()
                    self.assertEqual(first[0], self.answer[0])
                    self.assertEqual(self.whole(self.send()), self.whole(first))
            self.assertEqual(self.send(key=None)[0], 499)

    def test_a_reply_with_as_many_headers_as_envoy_accepts_arrives(self):
        statuses = set()
        for more in range(85, 100):
            self.key = str(uuid.uuid4())
            self.answer = (200, [("content-type", "text/plain"),
                                 *((f"x-{i}", "v") for i in range(more))], b"paid")
            # Python's client of HTTP/1.1 reads fewer.
            first, replay = (http2.send(self.envoy.address, "POST", "/v1/payments", [
                ("idempotency-key", self.key), ("x-tenant", "shop")], b"{}") for _ in range(2))
            statuses.add(first[0])
            if first[0] == 200:
                self.assertEqual(self.whole(replay), self.whole(first))
        # 502: Envoy itself refuses more.
        self.assertEqual(statuses, {200, 502})

    def test_a_large_reply_is_replayed_with_every_header(self):
        for size in (300 * 1024, 7 * 1024 * 1024):
            with self.subTest(size):
                self.key = str(uuid.uuid4())
                self.answer = (200, [*COOKIES, ("content-type", "text/plain"),
                                     ("warning", "199 - one"), ("warning", "199 - two")],
                               b"x" * size)
                first = self.send()
                replay = self.send()
                self.assertIn("idempotency-replayed", {name.lower() for name, _ in replay[1]})
                self.assertEqual(self.whole(replay), self.whole(first))
                cookies = [value for name, value in replay[1] if name.lower() == "set-cookie"]
                self.assertEqual(sorted(cookies), [value for _, value in COOKIES])

    def test_a_large_reply_without_repeated_headers_is_replayed(self):
        self.answer = (200, [COOKIES[0]], b"x" * 300 * 1024)
        first = self.send()
        replay = self.send()
        self.assertIn("idempotency-replayed", {name.lower() for name, _ in replay[1]})
        self.assertEqual(self.whole(replay), self.whole(first))

    def test_a_refusal_is_replayed(self):
        self.answer = (402, [("content-type", "text/plain")], b"no money\n")
        first = self.send()
        self.answer = (201, [], b"")
        self.assertEqual(self.whole(self.send()), self.whole(first))
        self.assertEqual(first[0], 402)
        self.assertEqual(len(self.upstream.requests), 1)

    def test_a_missing_key_is_400(self):
        self.assert_problem(self.send(key=None), 400)
        self.assertEqual(self.upstream.requests, [])

    def test_another_body_is_422(self):
        self.send()
        self.assert_problem(self.send(b'{"cents": 501}'), 422)
        self.assertEqual(len(self.upstream.requests), 1)

    def test_a_duplicate_in_flight_is_409(self):
        first = threading.Thread(target=self.send, kwargs={"headers": [("x-hold", "1")]},
                                 name="first-request")
        first.start()
        self.addCleanup(first.join)
        self.assertTrue(self.running.wait(20))
        headers = self.assert_problem(self.send(headers=[("x-hold", "1")]), 409)
        self.assertIn("retry-after", headers)
        self.held.set()
        first.join()
        self.assertEqual(self.send(headers=[("x-hold", "1")])[0], 201)
        self.assertEqual(len(self.upstream.requests), 1)

    def test_a_server_error_is_an_unknown_outcome(self):
        self.answer = (503, [], b"")
        self.assertEqual(self.send()[0], 503)
        self.answer = (201, [], b"")
        self.assertGreaterEqual(self.send()[0], 400)
        self.assertEqual(len(self.upstream.requests), 1)

    def test_without_the_processor_nothing_runs(self):
        self.daemon.kill()
        self.assertEqual(self.send()[0], 503)
        self.assertEqual(self.upstream.requests, [])

    def test_a_route_that_is_not_guarded_needs_no_key(self):
        self.assertEqual(self.send(key=None, path="/v1/other")[0], 201)

    def test_two_routes_do_not_share_a_key(self):
        self.send(path="/v1/payments/17", method="PATCH")
        other = self.send(path="/v1/payments/18", method="PATCH")
        # Another operation, or the same one with another request: never the first one's reply.
        self.assertTrue(other[0] == 422 or len(self.upstream.requests) == 2, other)

    def test_another_spelling_of_the_path_does_not_run_again(self):
        self.send()
        for path in ("/v1/payments/", "/V1/payments", "//v1/payments", "/v1/%70ayments"):
            with self.subTest(path):
                self.send(path=path)
                self.assertEqual(len(self.upstream.requests), 1)


if __name__ == "__main__":
    unittest.main()

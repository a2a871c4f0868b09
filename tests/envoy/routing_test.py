"""Which requests pass the processor: exactly the guarded ones, however their paths are spelled.

Nothing listens where the processor should be. A guarded request fails, closed; any other one
reaches the service."""

import socket
import unittest

import yaml

from . import envoy, http2
from .http_upstream import HttpUpstream
from .raw_http import send
from .sidecar import applied, sidecar

GUARDED = [
    ("POST", "/payments.v1.Payments/Charge"),
    ("POST", "/payments.v1.Payments/Charge?version=2"),
    ("POST", "/payments.v1.Payments/%43harge"),
    ("POST", "//payments.v1.Payments//Charge"),
    ("POST", "/x/../payments.v1.Payments/Charge"),
    ("GET", "/payments.v1.Payments/Charge"),
    # ASP.NET Core serves both.
    ("POST", "/payments.v1.Payments/charge"),
    ("POST", "/Payments.V1.payments/Charge/"),
    ("POST", "/payments.v1.refunds/createRefund/"),
    ("POST", "/payments.v1.Refunds/CreateRefund"),
    ("POST", "/payments.v1.Refunds/Create"),
    ("POST", "/v1/payments"),
    ("POST", "/v1/payments/"),
    ("POST", "/V1/Payments"),
    ("POST", "/v1/%70ayments"),
    ("POST", "/v1/./payments"),
    ("POST", "//v1///payments"),
    ("POST", "/v1/payments?a=b"),
    ("PATCH", "/v1/payments/17"),
    ("PATCH", "/v1/payments/a%20b/"),
    ("POST", "/v1/payments:refund"),
    ("POST", "/v1/payments%3Arefund"),
    ("POST", "/v1/payments%3arefund/"),
]
REACHED = [
    ("POST", "/payments.v1.Payments/Show"),
    ("POST", "/payments.v1.Payments/ChargeAll"),
    ("POST", "/payments.v1.Refunds/x/Create"),
    ("POST", "/payments.v1x.Refunds/ShowCreate"),
    ("GET", "/v1/payments"),
    ("POST", "/v1/payments2"),
    ("POST", "/v1/payments/17/notes"),
    ("PUT", "/v1/payments/17"),
    ("GET", "/"),
    ("POST", "/v1/payments%253Arefund"),
]
# The proxy itself refuses them.
REFUSED = [("POST", "/v1%2Fpayments"), ("POST", "/v1%5cpayments"), ("POST", "/v1/payments#x")]

# Each of them would make the router repeat a request, or end it.
DECIDING = [("x-envoy-retry-on", "5xx"), ("x-envoy-max-retries", "3"),
            ("x-envoy-retry-grpc-on", "unavailable"),
            ("x-envoy-upstream-rq-timeout-ms", "1"), ("x-tenant", "another"),
            ("x-http-method-override", "POST"), ("idempotency-replayed", "true"),
            ("x_tenant", "another"), ("x_http-method_override", "POST")]

# A filter that transcodes, or that authenticates callers, may do the same.
CHANGES_THE_PATH = {
    "name": "envoy.filters.http.lua",
    "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": {"inline_string": """
function envoy_on_request(handle)
  if handle:headers():get(":path") == "/alias" then
    handle:headers():replace(":path", "/v1/payments")
    handle:clearRouteCache()
  end
end
"""}}}


def closed_port():
    """A port that stays without a listener while the socket is open."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held


class RoutingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.upstream = HttpUpstream(lambda request: (503 if "fails" in request.path else 200, [], b""))
        cls.addClassCleanup(cls.upstream.close)
        held = closed_port()
        cls.addClassCleanup(held.close)
        cls.flags = ("--methods=payments.v1.Payments/Charge,payments.v1.*/Create*",
                     "--http_routes=POST /v1/payments,PATCH /v1/payments/{id},"
                     "POST /v1/payments:refund",
                     "--strip_headers=x-tenant", f"--upstream={cls.upstream.address}",
                     f"--processor=127.0.0.1:{held.getsockname()[1]}")
        cls.config = envoy.configuration(*cls.flags)
        cls.envoy = envoy.Envoy(cls.config)
        cls.addClassCleanup(cls.envoy.close)
        # For callers with HTTP/2: the service has HTTP/1.1 alone.
        cls.of_http1 = envoy.Envoy(envoy.configuration(*cls.flags, "--upstream_protocol=http1"))
        cls.addClassCleanup(cls.of_http1.close)

    def reached(self, method, path, headers=(), proxy=None):
        """The status, and the requests that the service got."""
        before = len(self.upstream.requests)
        status, _, _ = send((proxy or self.envoy).address, method, path, headers)
        return status, self.upstream.requests[before:]

    def test_a_guarded_request_does_not_pass_without_the_processor(self):
        for method, path in GUARDED:
            with self.subTest(method=method, path=path):
                self.assertEqual(self.reached(method, path), (503, []))

    def test_every_other_request_passes(self):
        for method, path in REACHED:
            with self.subTest(method=method, path=path):
                status, requests = self.reached(method, path)
                self.assertEqual((status, len(requests)), (200, 1))

    def test_a_method_in_another_case_does_not_pass_by(self):
        for method in ("POST", "post", "Post"):
            with self.subTest(method):
                before = len(self.upstream.requests)
                status, _, _ = http2.send(self.of_http1.address, method, "/v1/payments")
                self.assertEqual((status, len(self.upstream.requests) - before), (503, 0))

    def test_ambiguous_paths_are_refused(self):
        for method, path in REFUSED:
            with self.subTest(method=method, path=path):
                self.assertEqual(self.reached(method, path), (400, []))

    def test_no_caller_decides_about_retries(self):
        # Behind another proxy, Envoy believes headers that it removes at an edge.
        for trusts in (False, True):
            with envoy.Envoy(self.believing(self.config) if trusts else self.config) as proxy:
                for name, value in DECIDING:
                    with self.subTest(name, trusts=trusts):
                        headers = [(name, value), ("x-envoy-max-retries", "3"),
                                   ("x-forwarded-for", "127.0.0.1")]
                        status, requests = self.reached("GET", "/fails", headers, proxy)
                        self.assertEqual((status, len(requests)), (503, 1))
                        self.assertNotIn(name, {one.lower() for one in requests[0][2]})

    def test_a_filter_that_changes_the_path_leads_to_the_processor(self):
        config = yaml.safe_load(self.config)
        listener = config["static_resources"]["listeners"][0]
        filters = listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
        filters.insert(1, CHANGES_THE_PATH)
        with envoy.Envoy(yaml.safe_dump(config)) as proxy:
            self.assertEqual(self.reached("POST", "/alias", (), proxy), (503, []))
            self.assertEqual(self.reached("POST", "/other", (), proxy)[0], 200)

    def test_a_sidecar_has_the_same_routes(self):
        port = int(self.upstream.address.rsplit(":", 1)[1])
        processor = "outbound|7413||idempotencyd.idempotency.svc.cluster.local"
        filters = envoy.ctl_text(*self.flags[:-1], "--format=istio", "--workload=app=payments",
                                 "--processor=idempotencyd.idempotency.svc.cluster.local:7413")
        config = applied(yaml.safe_load(filters), sidecar(port, processor))
        with envoy.Envoy(yaml.safe_dump(config)) as proxy:
            for method, path in GUARDED:
                with self.subTest(method=method, path=path):
                    self.assertEqual(self.reached(method, path, (), proxy), (503, []))
            for method, path in REFUSED:
                with self.subTest(method=method, path=path):
                    self.assertEqual(self.reached(method, path, (), proxy), (400, []))

    @staticmethod
    def believing(config):
        changed = config.replace("use_remote_address: true", "internal_address_config: "
                                 "{cidr_ranges: [{address_prefix: 127.0.0.1, prefix_len: 8}]}")
        assert changed != config
        return changed

    def test_a_caller_could_decide_without_the_first_filter(self):
        # Otherwise the test above proves nothing.
        config = self.believing(self.config).replace('remove: "x-envoy-retry-on"', 'remove: "x-a"').replace(
            'remove: "x-envoy-max-retries"', 'remove: "x-b"')
        self.assertNotEqual(config, self.config)
        with envoy.Envoy(config) as unprotected:
            before = len(self.upstream.requests)
            send(unprotected.address, "GET", "/fails",
                 [("x-envoy-retry-on", "5xx"), ("x-envoy-max-retries", "3"),
                  ("x-forwarded-for", "127.0.0.1")])
            self.assertEqual(len(self.upstream.requests) - before, 4)


if __name__ == "__main__":
    unittest.main()

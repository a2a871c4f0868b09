"""`idempotencyctl envoy-config`: its text, as kept in golden/, and what real Envoys think of it."""

import functools
import pathlib
import tempfile
import unittest

import yaml

from . import envoy, golden
from .certificates import Authority
from .sidecar import applied, sidecar

FILTER = "envoy.filters.http.ext_proc"
EXT_PROC = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3"

# What is refused, and a part of the reason.
REFUSED = [
    ((), "--upstream is missing"),
    (("--upstream=a:1",), "--processor is missing"),
    (("--upstream=a:1", "--processor=127.0.0.1:1"), "no method is guarded"),
    (("--format=consul",), "--format must be"),
    (("--upstream=a",), "write HOST:PORT"),
    (("--upstream=a:0",), "write HOST:PORT"),
    (("--upstream=a:65536",), "write HOST:PORT"),
    (("--upstream=[::1:1",), "[ADDRESS]:PORT"),
    (('--upstream=a"b:1',), "neither a name nor an address"),
    (("--upstream=a:1", "--processor=127.0.0.1:1", "--listen=name:1"), "an IP address"),
    (("--envoy_version=1.36",), "write 1.37 or later"),
    (("--envoy_version=two",), "write 1.37 or later"),
    (("--strip_headers=X-Tenant",), "lower case"),
    (("--strip_headers=idempotency-key",), "not the key's"),
    (("--deadline=1ms",), "--deadline"),
]
REFUSED_WITH_ADDRESSES = [
    (("--methods=Charge",), "'Charge' is not a method"),
    (("--methods=a.B/C/D",), "is not a method"),
    (("--methods=a.B/",), "is not a method"),
    (('--methods=a.B/C"',), "is not a method"),
    (("--http_routes=/v1/payments",), "has a method and a path"),
    (("--http_routes=GET /v1/payments",), "its method must be"),
    (("--http_routes=POST|get /v1/payments",), "its method must be"),
    (("--http_routes=POST v1/payments",), "must begin with /"),
    (("--http_routes=POST /",), "must begin with /"),
    (("--http_routes=POST /v1//payments",), "a segment of its path is empty"),
    (("--http_routes=POST /v1/../payments",), "the segment '..'"),
    (("--http_routes=POST /v1/pay%6dents",), "the segment 'pay%6dents'"),
    (("--http_routes=POST /v1/pay*",), "the segment 'pay*'"),
    (("--descriptors=/no/such/file",), "cannot be read"),
    (("--descriptors=/dev/zero",), "has more than"),
    (("--descriptors=/etc/hostname",), "is not a FileDescriptorSet"),
    (("--descriptors=/dev/null",), "have no service"),
    (("--descriptors={descriptors}",), "shop.v1.Shop/Export"),
    (("--methods=a.B/C", "--upstream_protocol=h2c"), "write http1, http2 or caller"),
    (("--methods=a.B/C", "--format=istio", "--workload=a=b", "--upstream_protocol=http1"),
     "leave the flag out"),
    (("--methods=a.B/C", "--tls_cert=f"), "need each other"),
    (("--methods=a.B/C", "--tls_client_ca=f"), "--tls_cert is missing"),
    (("--methods=a.B/C", "--processor_tls_name=n"), "--processor_tls_ca is missing"),
    (("--methods=a.B/C", "--listen=0.0.0.0:80"), "callers of other machines need TLS"),
    (("--methods=a.B/C", "--format=istio"), "--workload is missing"),
    (("--methods=a.B/C", "--format=istio", "--workload=payments"), "write NAME=VALUE"),
    (("--methods=a.B/C", "--format=envoy-gateway"), "write NAME:PORT"),
    (("--methods=a.B/C", "--hostnames=pay.example"), "only --format=envoy-gateway"),
    (("--methods=a.B/C", "--format=istio", "--workload=a=b", "--tls_client_ca=f"),
     "leave out --tls_client_ca"),
]


def routes(bootstrap):
    listener = bootstrap["static_resources"]["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    return manager["route_config"]["virtual_hosts"][0]["routes"]


def http_filters(bootstrap):
    listener = bootstrap["static_resources"]["listeners"][0]
    return listener["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]


class ConfigTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        authority = Authority(cls.folder)
        authority.sign("envoy", "DNS:envoy.example")

    @classmethod
    @functools.cache
    def text(cls, case):
        return golden.written(case, cls.folder)

    def test_is_the_golden_text(self):
        self.assertEqual(sorted(golden.CASES), sorted(p.name for p in golden.FOLDER.iterdir()))
        for case in golden.CASES:
            with self.subTest(case):
                self.assertEqual(self.text(case), (golden.FOLDER / case).read_text(),
                                 "python3 -m tests.envoy.golden writes it again")

    def bootstraps(self):
        """Each case as a bootstrap, with the Envoys that have to read it."""
        for case in golden.CASES:
            text = self.text(case)
            versions = [envoy.NEWEST] if "allow_content_length_header" in text else envoy.VERSIONS
            if case.startswith("istio"):
                processor = "outbound|7413||idempotencyd.idempotency.svc.cluster.local"
                yield case, yaml.safe_dump(applied(yaml.safe_load(text), sidecar(9000, processor))), versions
            elif not case.startswith("envoy_gateway"):
                yield case, text, versions

    def test_envoy_accepts_it(self):
        seen = set()
        for case, text, versions in self.bootstraps():
            for version in versions:
                seen.add(version)
                with self.subTest(case, version=version):
                    self.assertEqual(envoy.validate(text, version, self.folder), "")
        self.assertEqual(seen, set(envoy.VERSIONS))

    def test_envoy_refuses_what_is_wrong(self):
        # Otherwise the test above proves nothing.
        wrong = self.text("methods.yaml").replace("FULL_DUPLEX_STREAMED", "FULL_DUPLEX")
        self.assertIn("FULL_DUPLEX", envoy.validate(wrong, folder=self.folder))
        newer = self.text("methods.yaml")
        self.assertIn("allow_content_length_header",
                      envoy.validate(newer, envoy.OLDEST, self.folder))

    def test_only_guarded_routes_have_the_filter(self):
        for case, text, _ in self.bootstraps():
            with self.subTest(case):
                bootstrap = yaml.safe_load(text)
                (one,) = (one for one in http_filters(bootstrap) if one["name"] == FILTER)
                # Not `disabled`, which is decided by the path that a caller sent.
                self.assertNotIn("disabled", one)
                self.assertEqual(set(one["typed_config"]["processing_mode"].values()),
                                 {"SKIP", "NONE"})
                for route in routes(bootstrap):
                    guarded = route["name"].startswith("idempotency ")
                    of_filter = route.get("typed_per_filter_config", {}).get(FILTER)
                    self.assertEqual(of_filter is not None, guarded)
                    if guarded:
                        self.assertEqual(set(of_filter["overrides"]["processing_mode"].values()),
                                         {"SEND", "FULL_DUPLEX_STREAMED"})
                    if guarded:
                        action = route["route"]
                        self.assertEqual(action["retry_policy"], {"num_retries": 0})
                        self.assertNotIn("request_mirror_policies", action)
                        self.assertEqual(action["timeout"],
                                         action["max_stream_duration"]["max_stream_duration"])
                        self.assertEqual(action["timeout"], action["idle_timeout"])

    def test_no_limit_is_narrower_behind_the_record_than_before_it(self):
        for case in ("methods.yaml", "http.yaml", "tls.yaml"):
            with self.subTest(case):
                upstream, processor = (
                    one["circuit_breakers"]["thresholds"][0]
                    for one in yaml.safe_load(self.text(case))["static_resources"]["clusters"])
                for limit in ("max_requests", "max_pending_requests"):
                    self.assertGreaterEqual(upstream[limit], processor[limit])
                self.assertGreaterEqual(upstream["max_connections"], processor["max_requests"])

    def test_the_service_is_called_in_a_version_that_it_speaks(self):
        def version(*flags):
            written = envoy.ctl_text("--upstream=127.0.0.1:1", "--processor=127.0.0.1:2", *flags)
            options = yaml.safe_load(written)["static_resources"]["clusters"][0][
                "typed_extension_protocol_options"][
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]
            return list(options.get("explicit_http_config",
                                    ["use_downstream_protocol_config"]))[0].partition("_")[0]
        grpc, http = "--methods=a.B/C", "--http_routes=POST /v1/payments"
        self.assertEqual(version(grpc), "http2")
        self.assertEqual(version(http), "http")
        self.assertEqual(version(grpc, http), "use")
        self.assertEqual(version(http, "--upstream_protocol=http2"), "http2")
        self.assertEqual(version(grpc, "--upstream_protocol=http1"), "http")
        self.assertEqual(version(grpc, "--upstream_protocol=caller"), "use")

    def test_the_filter_fails_closed(self):
        for case, text, _ in self.bootstraps():
            with self.subTest(case):
                for one in http_filters(yaml.safe_load(text)):
                    if one["name"] == FILTER:
                        self.assertIs(one["typed_config"]["failure_mode_allow"], False)
                        self.assertEqual(one["typed_config"]["status_on_error"], {"code": 503})

    def test_the_descriptors_say_what_is_guarded(self):
        names = [route["name"] for route in routes(yaml.safe_load(self.text("descriptors.yaml")))]
        self.assertEqual(names, [
            "streaming shop.v1.Shop/Export", "streaming shop.v1.Shop/Watch",
            "idempotency shop.v1.Shop/Note", "idempotency shop.v1.Shop/Order",
            "idempotency shop.v1.Shop/Replace", "rest"])

    def test_envoy_gateway_has_the_same_routes_and_attributes(self):
        objects = list(yaml.safe_load_all(self.text("envoy_gateway.yaml")))
        of_kind = lambda kind: [one for one in objects if one["kind"] == kind]
        guarded, rest = of_kind("HTTPRoute")
        matches = [match for rule in guarded["spec"]["rules"] for match in rule["matches"]]
        self.assertEqual([match["path"]["value"] for match in matches], [
            "/shop.v1.Shop/Note", r"(?i)/shop\.v1\.Shop/Note/?",
            "/shop.v1.Shop/Order", r"(?i)/shop\.v1\.Shop/Order/?",
            "/shop.v1.Shop/Replace", r"(?i)/shop\.v1\.Shop/Replace/?",
            r"(?i)/payments\.v1\.[^/]*/Create[^/]*/?", "(?i)/v1/payments/?", "(?i)/v1/payments/?"])
        self.assertEqual([match["path"]["value"] for match in rest["spec"]["rules"][0]["matches"]],
                         ["/shop.v1.Shop/Export", "/shop.v1.Shop/Watch", "/"])
        (policy,) = of_kind("EnvoyExtensionPolicy")
        (traffic,) = of_kind("BackendTrafficPolicy")
        for one in (policy, traffic):
            self.assertEqual([target["name"] for target in one["spec"]["targetRefs"]],
                             [guarded["metadata"]["name"]])
        self.assertEqual(traffic["spec"]["retry"], {"numRetries": 0})
        self.assertEqual(set(traffic["spec"]["circuitBreaker"].values()), {65536})
        self.assertEqual(traffic["spec"]["timeout"]["http"], {
            "requestTimeout": "90s500ms", "maxStreamDuration": "90s500ms",
            "streamIdleTimeout": "90s500ms"})
        (processor,) = policy["spec"]["extProc"]
        self.assertIs(processor["failOpen"], False)
        static = next(one["typed_config"] for one in
                      http_filters(yaml.safe_load(self.text("methods.yaml"))) if one["name"] == FILTER)
        mode = processor["processingMode"]
        self.assertEqual(mode["request"], {"body": "FullDuplexStreamed",
                                           "attributes": static["request_attributes"]})
        self.assertEqual(mode["response"], {"body": "FullDuplexStreamed",
                                            "attributes": static["response_attributes"]})
        (client,) = of_kind("ClientTrafficPolicy")
        stripped = client["spec"]["headers"]["earlyRequestHeaders"]["remove"]
        self.assertIn("x-envoy-retry-on", stripped)
        self.assertIn("x-tenant", stripped)

    def test_every_route_has_the_hostnames(self):
        def written(*hostnames):
            return envoy.ctl("--format=envoy-gateway", "--upstream=a:1", "--processor=b:1",
                             "--methods=" + ",".join(f"a.B/M{i}" for i in range(130)), *hostnames)
        hostnames = {flag: {tuple(one["spec"].get("hostnames", ())) for one in
                            yaml.safe_load_all(written(*flag)[1]) if one["kind"] == "HTTPRoute"}
                     for flag in ((), ("--hostnames=pay.example, *.a-1.example",))}
        self.assertEqual(list(hostnames.values()), [{()}, {("pay.example", "*.a-1.example")}])
        for wrong in ("Pay.example", "pay.example:443", "10.0.0.1", "*", "a.*.b", "a..b", "-a.b",
                      "a-.b", "a_b", "a." * 126 + "aa"):
            with self.subTest(wrong):
                status, out, err = written(f"--hostnames={wrong}")
                self.assertEqual((status, out), (2, ""))
                self.assertIn("write names of hosts in lower case", err)
        self.assertEqual(written("--hostnames=" + ",".join("abcdefghijklmnop"))[0], 0)
        self.assertIn("16 at the most", written("--hostnames=" + ",".join("abcdefghijklmnopq"))[2])

    def test_a_service_of_another_namespace_is_granted(self):
        def objects(upstream, processor, namespace="shop"):
            found = yaml.safe_load_all(envoy.ctl_text(
                "--format=envoy-gateway", "--methods=a.B/C", f"--kubernetes_namespace={namespace}",
                f"--upstream={upstream}", f"--processor={processor}"))
            return [one for one in found if one["kind"] == "ReferenceGrant"]

        def grants(upstream, processor):
            return [(one["metadata"]["namespace"], one["spec"]) for one in objects(upstream, processor)]
        for here in ("b:2", "b.shop:2", "b.shop.svc.cluster.local:2"):
            self.assertEqual(grants("a:1", here), [])
        self.assertEqual(grants("a.tills:1", "b.idempotency.svc.cluster.local:2"), [
            (namespace, {
                "from": [{"group": group, "kind": kind, "namespace": "shop"}],
                "to": [{"group": "", "kind": "Service", "name": name}]})
            for namespace, group, kind, name in (
                ("idempotency", "gateway.envoyproxy.io", "EnvoyExtensionPolicy", "b"),
                ("tills", "gateway.networking.k8s.io", "HTTPRoute", "a"))])
        # Grants of several applications are beside each other.
        names = [one["metadata"]["name"] for namespace in ("shop", "books")
                 for one in objects("a.tills:1", "b.idempotency:2", namespace)]
        self.assertEqual(len(set(names)), 4, names)

    def test_many_routes_are_several_objects(self):
        methods = ",".join(f"a.B/M{i}" for i in range(130))
        status, out, _ = envoy.ctl("--format=envoy-gateway", f"--methods={methods}",
                                   "--upstream=a:1", "--processor=b:1")
        self.assertEqual(status, 0)
        objects = list(yaml.safe_load_all(out))
        guarded = [one for one in objects if one["metadata"]["name"].startswith("idempotency-guarded")]
        counts = [[len(rule["matches"]) for rule in one["spec"]["rules"]] for one in guarded]
        self.assertEqual(counts, [[8] * 16, [8] * 16, [4]])
        (policy,) = [one for one in objects if one["kind"] == "EnvoyExtensionPolicy"]
        self.assertEqual(len(policy["spec"]["targetRefs"]), 3)

    def test_no_text_ends_its_scalar(self):
        nasty = 'a"b\\c\n  d: e\t# \x7f \u00fc: {x}'
        flags = ("--methods=a.B/C", "--upstream=127.0.0.1:1", "--processor=127.0.0.1:2")
        listener = yaml.safe_load(envoy.ctl_text(*flags, f"--tls_cert={nasty}", "--tls_key=k"))[
            "static_resources"]["listeners"][0]
        tls = listener["filter_chains"][0]["transport_socket"]["typed_config"]["common_tls_context"]
        self.assertEqual(tls["tls_certificates"][0]["certificate_chain"]["filename"], nasty)
        istio = yaml.safe_load(envoy.ctl_text(*flags, "--format=istio", f"--workload=app={nasty}"))
        self.assertEqual(istio["spec"]["workloadSelector"]["labels"], {"app": nasty})
        objects = yaml.safe_load_all(envoy.ctl_text(
            "--methods=a.B/C", "--upstream=a:1", "--processor=b:2", "--format=envoy-gateway",
            f"--gateway={nasty}"))
        self.assertEqual(next(objects)["spec"]["parentRefs"], [{"name": nasty}])

    def test_wrong_flags_are_refused(self):
        addresses = ("--upstream=127.0.0.1:1", "--processor=127.0.0.1:2")
        file = str(golden.descriptors(self.folder))
        for flags, reason in (*REFUSED, *((addresses + flags, reason)
                                          for flags, reason in REFUSED_WITH_ADDRESSES)):
            with self.subTest(flags):
                status, out, err = envoy.ctl(*[one.replace("{descriptors}", file) for one in flags])
                self.assertEqual((status, out), (2, ""))
                self.assertIn(reason, err)
        status, _, err = envoy.ctl("--upstream=a:1", "--processor=10.0.0.1:1", "--methods=a.B/C")
        self.assertEqual(status, 2)
        self.assertIn("it is another machine", err)


if __name__ == "__main__":
    unittest.main()

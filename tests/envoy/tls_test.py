"""Client certificates: Envoy verifies them, their URI is the scope, and only Envoy reaches the
processor."""

import pathlib
import tempfile
import unittest
import uuid

import grpc

from . import envoy
from .certificates import Authority
from .daemon import Daemon
from .grpc_call import call
from .guard_test import CHARGE, Upstream

CONFIG = """
external_processor {
  namespace: "shop"
  proxies: "envoy"
  on_unknown_outcome: LEASE_EXPIRY_REQUIRE_RECOVERY
  scope { peer: URI }
  grpc_methods { name: "payments.v1.Payments/Charge" }
}
identities { name: "envoy" certificates { uri: "spiffe://example.org/envoy" } }
"""


class TlsTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        authority = Authority(self.folder)
        authority.sign("server", "DNS:localhost", "DNS:idempotencyd.example", "IP:127.0.0.1")
        for name in ("envoy", "alice", "bob"):
            authority.sign(name, f"URI:spiffe://example.org/{name}", "DNS:localhost")
        authority.sign("nameless")
        Authority(self.folder, "other").sign("stranger", "URI:spiffe://example.org/alice")
        self.upstream = Upstream()
        self.addCleanup(self.upstream.close)
        self.daemon = Daemon(self.folder, "", config=CONFIG, flags=(
            f"--tls_cert={self.folder}/server.crt", f"--tls_key={self.folder}/server.key",
            f"--tls_client_ca={self.folder}/ca.crt"))
        self.addCleanup(self.daemon.close)
        self.envoy = self.proxy("envoy")
        self.key = str(uuid.uuid4())

    def proxy(self, identity):
        """An Envoy that presents this certificate to the processor."""
        proxy = envoy.Envoy(envoy.configuration(
            f"--methods={CHARGE[1:]}", f"--upstream={self.upstream.address}",
            f"--processor={self.daemon.processor}", "--tls_cert=server.crt",
            "--tls_key=server.key", "--tls_client_ca=ca.crt", "--processor_tls_ca=ca.crt",
            f"--processor_tls_cert={identity}.crt", f"--processor_tls_key={identity}.key",
            "--processor_tls_name=idempotencyd.example"), folder=self.folder)
        self.addCleanup(proxy.close)
        return proxy

    def call(self, identity, proxy=None, metadata=()):
        read = lambda name: (self.folder / name).read_bytes()
        credentials = grpc.ssl_channel_credentials(
            read("ca.crt"), read(f"{identity}.key"), read(f"{identity}.crt"))
        return call((proxy or self.envoy).address, CHARGE, self.key, b"pay", metadata=metadata,
                    credentials=credentials)

    def test_a_certificate_is_the_scope(self):
        first = self.call("alice")
        self.assertEqual((first.code, first.replayed), ("OK", False), first)
        self.assertTrue(self.call("alice").replayed)
        other = self.call("bob")
        self.assertEqual((other.code, other.replayed), ("OK", False), other)
        self.assertEqual(self.upstream.executions(self.key), 2)

    def test_no_caller_chooses_another_scope(self):
        first = self.call("alice")
        for name in ("x-forwarded-client-cert", "x-tenant"):
            forged = self.call("bob", metadata=((name, "URI=spiffe://example.org/alice"),))
            self.assertNotEqual(forged.body, first.body)

    def test_a_certificate_without_a_uri_is_refused(self):
        refused = self.call("nameless")
        self.assertNotEqual(refused.code, "OK")
        self.assertEqual(self.upstream.executions(self.key), 0)

    def test_a_certificate_of_another_authority_is_refused(self):
        self.assertEqual(self.call("stranger").code, "UNAVAILABLE")
        self.assertEqual(self.upstream.executions(self.key), 0)

    def test_a_proxy_that_is_not_one_gets_nothing(self):
        refused = self.call("alice", self.proxy("bob"))
        self.assertNotEqual(refused.code, "OK", refused)
        self.assertEqual(self.upstream.executions(self.key), 0)


if __name__ == "__main__":
    unittest.main()

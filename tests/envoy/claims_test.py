"""Tokens that Envoy's filter jwt_authn verifies: a claim is the scope, as metadata of the filter or
as a header that it sets. IDEMPOTENCY_ENVOY chooses the version of Envoy."""

import os
import pathlib
import tempfile
import unittest
import uuid

from . import envoy
from .daemon import Daemon
from .grpc_call import call
from .guard_test import CHARGE, Upstream
from .tokens import Issuer

VERSION = os.environ.get("IDEMPOTENCY_ENVOY", envoy.NEWEST)
# Where the command's configuration has room for it.
MARK = ("          # A filter that authenticates callers (for example envoy.filters.http.jwt_authn) "
        "goes here.\n")
JWT_FILTER = """\
          - name: envoy.filters.http.jwt_authn
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
              providers:
                shop:
                  issuer: shop
                  local_jwks: {{inline_string: '{key_set}'}}
                  {passes_on}
              rules:
              - match: {{prefix: /}}
                requires: {requires}
"""
REQUIRED = "{provider_name: shop}"
# A caller without a token reaches the filters behind it.
OPTIONAL = "{requires_any: {requirements: [{provider_name: shop}, {allow_missing: {}}]}}"
AS_METADATA = "payload_in_metadata: payload"
AS_HEADER = "claim_to_headers: [{header_name: x-tenant, claim_name: sub}]"
CONFIG = """
external_processor {{
  namespace: "shop"
  on_unknown_outcome: LEASE_EXPIRY_REQUIRE_RECOVERY
  scope {{ {scope} }}
  grpc_methods {{ name: "payments.v1.Payments/Charge" }}
}}
"""
# Headers with the name of the claim, of the metadata, or of what other set-ups put a claim into.
FORGED = ("sub", "payload", "payload.sub", "envoy.filters.http.jwt_authn", "x-tenant",
          "x-jwt-payload", "x-envoy-dynamic-metadata", "x-envoy-metadata")


class Claims:
    """The tests of both ways. A class of them has SCOPE, PASSES_ON and FLAGS."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.issuer = Issuer(folder.name, "shop")
        cls.stranger = Issuer(folder.name, "stranger")
        cls.upstream = Upstream()
        cls.addClassCleanup(cls.upstream.close)
        cls.daemon = Daemon(folder.name, "", config=CONFIG.format(scope=cls.SCOPE))
        cls.addClassCleanup(cls.daemon.close)
        cls.envoy = cls.proxy()

    @classmethod
    def configuration(cls, requires=REQUIRED, flags=None):
        """Envoy's, with the filter at the place that the command marks."""
        written = envoy.configuration(
            f"--methods={CHARGE[1:]}", f"--upstream={cls.upstream.address}",
            f"--processor={cls.daemon.processor}", f"--envoy_version={envoy.minor(VERSION)}",
            *(cls.FLAGS if flags is None else flags))
        assert written.count(MARK) == 1, written
        return written.replace(MARK, JWT_FILTER.format(
            key_set=cls.issuer.key_set(), passes_on=cls.PASSES_ON, requires=requires))

    @classmethod
    def proxy(cls, config=None):
        proxy = envoy.Envoy(config or cls.configuration(), VERSION)
        cls.addClassCleanup(proxy.close)
        return proxy

    def setUp(self):
        self.key = str(uuid.uuid4())

    def call(self, token, metadata=(), proxy=None):
        authorization = (("authorization", f"Bearer {token}"),) if token else ()
        return call((proxy or self.envoy).address, CHARGE, self.key, b"pay",
                    metadata=authorization + tuple(metadata))

    def executions(self):
        return self.upstream.executions(self.key)

    def assert_refused(self, reply):
        self.assertEqual((reply.code, self.executions()), ("UNAUTHENTICATED", 0), reply)

    def test_two_subjects_with_one_key_are_two_records(self):
        tokens = [self.issuer.token(sub=subject) for subject in ("alice", "bob")]
        first = [self.call(token) for token in tokens]
        self.assertEqual([(one.code, one.replayed) for one in first], [("OK", False)] * 2, first)
        self.assertNotEqual(first[0].body, first[1].body)
        for token, reply in zip(tokens, first):
            again = self.call(token)
            self.assertTrue(again.replayed, again)
            self.assertEqual(again.first_reply(), reply.first_reply())
        self.assertEqual(self.executions(), 2)

    def test_a_renewed_token_is_the_same_caller(self):
        self.call(self.issuer.token(sub="alice"))
        replay = self.call(self.issuer.token(sub="alice", lives_s=1200, jti="another"))
        self.assertTrue(replay.replayed, replay)
        self.assertEqual(self.executions(), 1)

    def test_a_token_without_the_claim_is_refused(self):
        for claims in ({}, {"sub": ""}, {"sub": ["alice"]}, {"sub": {"sub": "alice"}},
                       {"payload": {"sub": "alice"}}, {"name": "alice"}):
            with self.subTest(claims):
                self.assert_refused(self.call(self.issuer.token(**claims)))

    def test_a_token_that_is_not_valid_is_refused(self):
        valid = self.issuer.token(sub="alice")
        head, body, signature = self.issuer.token(sub="mallory").split(".")
        for name, token in {
                "none": None,
                "expired": self.issuer.token(sub="alice", lives_s=-600),
                "another key": self.stranger.token(sub="alice", iss="shop"),
                "another issuer": self.stranger.token(sub="alice"),
                "not signed": self.issuer.token(sub="alice", algorithm="none"),
                "another body": f"{head}.{valid.split('.')[1]}.{signature}",
                "cut": f"{head}.{body}.", "no token": "alice"}.items():
            with self.subTest(name):
                self.assert_refused(self.call(token))

    def test_no_header_of_a_caller_is_a_claim(self):
        first = self.call(self.issuer.token(sub="alice"))
        bob = self.issuer.token(sub="bob")
        own = self.call(bob)
        self.assertNotEqual(own.body, first.body)
        for name in FORGED:
            for value in ("alice", '{"payload": {"sub": "alice"}}'):
                with self.subTest(name, value=value):
                    forged = self.call(bob, [(name, value)])
                    self.assertEqual((forged.body, forged.replayed), (own.body, True), forged)
        self.assertEqual(self.executions(), 2)

    def test_a_forged_header_does_not_replace_a_missing_claim(self):
        optional = self.proxy(self.configuration(OPTIONAL))
        self.assertEqual(self.call(self.issuer.token(sub="alice"), proxy=optional).code, "OK")
        for name in FORGED:
            for proxy, token in ((self.envoy, self.issuer.token()), (optional, self.issuer.token()),
                                 (optional, None)):
                with self.subTest(name, optional=proxy is optional, token=token):
                    refused = self.call(token, [(name, "alice")], proxy)
                    self.assertEqual(refused.code, "UNAUTHENTICATED", refused)
        self.assertEqual(self.executions(), 1)


class ClaimAsMetadataTest(Claims, unittest.TestCase):
    SCOPE = 'metadata { filter: "envoy.filters.http.jwt_authn" path: "payload" path: "sub" }'
    PASSES_ON = AS_METADATA

    def test_a_proxy_that_does_not_forward_the_metadata_runs_nothing(self):
        config = self.configuration()
        without = config.replace("forwarding_namespaces: {untyped: [envoy.filters.http.jwt_authn]}",
                                 "forwarding_namespaces: {untyped: [another]}")
        self.assertNotEqual(without, config)
        self.assert_refused(self.call(self.issuer.token(sub="alice"), proxy=self.proxy(without)))
        self.assertIn("metadata_options.forwarding_namespaces", self.daemon.log())


class ClaimAsHeaderTest(Claims, unittest.TestCase):
    SCOPE = 'header: "x-tenant"'
    PASSES_ON = AS_HEADER
    FLAGS = ("--strip_headers=x-tenant",)

    def test_without_the_first_filter_the_header_would_be_believed(self):
        # Otherwise the tests above prove nothing about it.
        first = self.call(self.issuer.token(sub="alice"))
        config = self.configuration(flags=()).replace(AS_HEADER, AS_METADATA)
        forged = self.call(self.issuer.token(sub="bob"), [("x-tenant", "alice")],
                           self.proxy(config))
        self.assertEqual((forged.body, forged.replayed), (first.body, True), forged)


if __name__ == "__main__":
    unittest.main()

"""Services that nobody of this project wrote, behind a real Envoy: in Go, Java, Node and Python,
called by clients of each language, by ghz and by grpcurl; and SpiceDB.

It builds them from their registries, which takes minutes: scripts/envoy.sh runs it."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import uuid

from . import envoy
from .child import Child
from .daemon import Daemon
from .held_port import HeldPort
from .services import GHZ, GRPCURL, SERVICES, SPICEDB, Toolbox

FAILED_PRECONDITION = 9
CALLS = 200
WRITE = "authzed.api.v1.PermissionsService/WriteRelationships"


def run(*command):
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False,
                          timeout=120)


class Guarded:
    """A daemon and an Envoy in front of a service."""

    def __init__(self, method, upstream, version):
        self._folder = tempfile.TemporaryDirectory()
        self._daemon = Daemon(self._folder.name, f'grpc_methods {{ name: "{method}" }}')
        flags = (f"--methods={method}", f"--upstream={upstream}",
                 f"--processor={self._daemon.processor}")
        self._envoy = envoy.Envoy(
            envoy.configuration(*flags, f"--envoy_version={envoy.minor(version)}"), version)
        self.address = self._envoy.address

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._envoy.close()
        self._daemon.close()
        self._folder.cleanup()


class ServicesTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.tools = Toolbox(os.environ["IDEMPOTENCY_BUILD"])

    def each(self):
        """Each service behind each Envoy."""
        for version in envoy.VERSIONS:
            for language, service in SERVICES.items():
                with self.tools.serve(language) as running, \
                        Guarded(service.method[1:], running.address, version) as guarded:
                    yield service, running, guarded.address

    def test_a_call_of_one_client_is_replayed_to_every_other(self):
        for service, running, address in self.each():
            for first in SERVICES:
                key = str(uuid.uuid4())
                original = self.tools.call(first, address, service.method, key, service.request)
                self.assertEqual((original["code"], original["replayed"]), (0, False), original)
                for client in SERVICES:
                    replay = self.tools.call(client, address, service.method, key, service.request)
                    self.assertTrue(replay["replayed"], replay)
                    for field in ("code", "reply", "execution"):
                        self.assertEqual(replay[field], original[field], client)
                other = self.tools.call(first, address, service.method, key, service.other)
                self.assertEqual(other["code"], FAILED_PRECONDITION, other)
                self.assertEqual(running.executions(key), 1)

    def test_an_error_is_replayed(self):
        for service, running, address in self.each():
            if service.method != SERVICES["java"].method:
                continue
            key = str(uuid.uuid4())
            original = self.tools.call("go", address, service.method, key, service.other)
            self.assertEqual(original["code"], 5, original)
            replay = self.tools.call("java", address, service.method, key, service.other)
            self.assertEqual((replay["code"], replay["message"], replay["replayed"]),
                             (5, original["message"], True))
            self.assertEqual(running.executions(key), 1)

    def test_ghz(self):
        method = SERVICES["go"].method[1:]
        program = self.tools.program(GHZ)
        with self.tools.serve("go") as running, \
                Guarded(method, running.address, envoy.NEWEST) as guarded:
            def load(key):
                done = run(program, "--insecure", "--call", method, "-n", CALLS, "-c", 20, "-d",
                           '{"response_size": 512}', "-m",
                           json.dumps({"idempotency-key": key, "x-tenant": "shop"}), "-O", "json",
                           guarded.address)
                self.assertEqual(done.returncode, 0, done.stderr)
                return json.loads(done.stdout)["statusCodeDistribution"]
            self.assertEqual(load("{{.UUID}}"), {"OK": CALLS})
            before = running.count(lambda line: line.startswith("executed"))
            self.assertEqual(before, CALLS)
            same = load("the-same-key")
            self.assertGreater(same.get("OK", 0), 0)
            # Others were in flight with the first one.
            self.assertLessEqual(set(same), {"OK", "Aborted"})
            self.assertEqual(running.executions("the-same-key"), 1)

    def test_grpcurl(self):
        method = SERVICES["go"].method[1:]
        program = self.tools.program(GRPCURL)
        with self.tools.serve("go") as running, \
                Guarded(method, running.address, envoy.NEWEST) as guarded:
            def call(size, *headers):
                flags = [flag for header in headers for flag in ("-H", header)]
                return run(program, "-plaintext", "-v", *flags, "-d",
                           json.dumps({"responseSize": size}), guarded.address, method)
            first, replay, other = (call(size, "idempotency-key: one", "x-tenant: shop")
                                    for size in (16, 16, 17))
            self.assertIn("x-execution: 1", first.stdout, first.stderr)
            self.assertIn("x-execution: 1", replay.stdout)
            self.assertIn("idempotency-replayed: true", replay.stdout)
            self.assertIn("FailedPrecondition", other.stdout + other.stderr)
            missing = call(16, "x-tenant: shop")
            self.assertIn("InvalidArgument", missing.stdout + missing.stderr)
            self.assertEqual(running.count(lambda line: line.startswith("executed /grpc.testing")), 1)

    def test_spicedb_writes_a_relationship_once(self):
        found = shutil.which("spicedb")
        program = pathlib.Path(found) if found else self.tools.program(SPICEDB)
        grpcurl = self.tools.program(GRPCURL)
        port = HeldPort()
        self.addCleanup(port.close)
        with Child([program, "serve", "--grpc-preshared-key=secret", "--datastore-engine=memory",
                    f"--grpc-addr={port.address}", "--http-enabled=false", "--metrics-enabled=false",
                    "--telemetry-endpoint=", "--log-format=json"],
                   "grpc server started serving", stderr=subprocess.STDOUT) as _, \
                Guarded(WRITE, port.address, envoy.NEWEST) as guarded:
            def call(address, name, request, *headers):
                flags = [flag for header in ("authorization: Bearer secret", *headers)
                         for flag in ("-H", header)]
                return run(grpcurl, "-plaintext", *flags, "-d", json.dumps(request), address, name)
            schema = "definition user {}\n\ndefinition document {\n\trelation viewer: user\n}"
            written = call(guarded.address, "authzed.api.v1.SchemaService/WriteSchema",
                           {"schema": schema})
            self.assertEqual(written.returncode, 0, written.stderr)

            def write(address, document, *headers):
                return call(address, WRITE, {"updates": [{
                    "operation": "OPERATION_CREATE", "relationship": {
                        "resource": {"objectType": "document", "objectId": document},
                        "relation": "viewer",
                        "subject": {"object": {"objectType": "user", "objectId": "alice"}}}}]},
                    *headers)
            # Without a key's protection a retry of CREATE fails, although the first call succeeded.
            self.assertEqual(write(port.address, "direct").returncode, 0)
            self.assertIn("AlreadyExists", write(port.address, "direct").stderr)
            key = ("idempotency-key: document-1", "x-tenant: shop")
            first, retry = (write(guarded.address, "guarded", *key) for _ in range(2))
            self.assertEqual((first.returncode, retry.returncode), (0, 0), first.stderr + retry.stderr)
            self.assertEqual(json.loads(first.stdout), json.loads(retry.stdout))
            # SpiceDB's own view: it has it once, and a write without the record would fail.
            self.assertIn("AlreadyExists", write(port.address, "guarded").stderr)
            self.assertIn("FailedPrecondition", write(guarded.address, "another", *key).stderr)


if __name__ == "__main__":
    unittest.main()

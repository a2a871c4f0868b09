#!/usr/bin/env python3
"""Runs the daemon and the payments service of docker-compose.yml on this machine, with the flags,
certificates and rules of that file, over SQLite.

usage: compose_access_test.py PROJECT_ROOT BIN_FOLDER
"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT, BIN = sys.argv[1:3]


class Running:
    """A program until the end of its block; `line` is the first line that matches."""

    def __init__(self, command, pattern):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True)
        self.line = None
        for line in self.process.stdout:
            self.line = re.search(pattern, line)
            if self.line:
                return
        raise AssertionError(f"{command} ended")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=60)


class ComposeAccessTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="idempotency-compose.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        subprocess.run([os.path.join(ROOT, "deploy/compose/certificates.sh"), self.folder],
                       check=True)
        subprocess.run([os.path.join(BIN, "idempotencyctl"), "keyring", "generate",
                        f"--file={self.folder}/keyring"], check=True, stdout=subprocess.DEVNULL)
        with open(os.path.join(ROOT, "docker-compose.yml"), encoding="utf-8") as file:
            self.services = yaml.safe_load(file)["services"]

    def command(self, service, program, replaced, tenant="payments"):
        """The command of a service with addresses and paths of this machine."""
        words = [os.path.join(BIN, program)]
        for word in self.services[service]["command"]:
            flag, _, value = word.partition("=")
            if flag == "--maintenance_store":  # SQLite has no logins
                continue
            value = replaced.get(flag, value)
            value = value.replace("/run/certificates/payments.", f"/run/certificates/{tenant}.")
            value = value.replace("/run/certificates", self.folder)
            value = value.replace("/run/keyring", self.folder)
            value = value.replace("/etc/idempotency", os.path.join(ROOT, "deploy/compose"))
            words.append(f"{flag}={value}" if value else flag)
        return words

    def daemon(self):
        return Running(self.command("idempotencyd-1", "idempotencyd", {
            "--listen": "127.0.0.1:0", "--metrics": "127.0.0.1:0", "--console": "127.0.0.1:0",
            "--store": f"sqlite:{self.folder}/records.db"}),
                       r"serving on ([\d.:]+\d).*console on ([\d.:]+)")

    def charge(self, daemon, tenant):
        with Running(self.command("payments", "payments_server", {
                "--listen": "127.0.0.1:0", "--idempotencyd": daemon.line[1],
                "--database": f"{self.folder}/{tenant}.db"}, tenant), r"(127\.0\.0\.1:\d+)") as server:
            return subprocess.run(
                [os.path.join(BIN, "payments_client"), "charge", f"--server={server.line[1]}",
                 "--account=alice", "--amount=500"],
                capture_output=True, text=True, timeout=60, check=False)

    def test_the_payments_service_charges(self):
        with self.daemon() as daemon:
            charged = self.charge(daemon, "payments")
            self.assertEqual(charged.returncode, 0, charged.stdout + charged.stderr)

    def test_the_operator_lists_the_records(self):
        with self.daemon() as daemon:
            self.assertEqual(self.charge(daemon, "payments").returncode, 0)
            variables = {name: value.replace("/run/certificates", self.folder)
                         for name, value in self.services["operator"]["environment"].items()}
            variables["IDEMPOTENCYCTL_ADDRESS"] = daemon.line[1]
            listed = subprocess.run(
                [os.path.join(BIN, "idempotencyctl"), "list", "--namespace=payments"],
                env={**os.environ, **variables}, capture_output=True, text=True, timeout=60,
                check=False)
            self.assertEqual(listed.returncode, 0, listed.stderr)
            self.assertIn("COMPLETED", listed.stdout)

    def test_the_console_is_the_operators(self):
        """As the comment of docker-compose.yml has it, with curl for a browser."""
        with self.daemon() as daemon:
            self.assertEqual(self.charge(daemon, "payments").returncode, 0)
            for who, status in (("operator", "200"), ("orders", "403")):
                done = self.curl(who, daemon.line[2], "List", '{"namespace": "payments"}')
                self.assertEqual(done.stdout[-3:], status, done.stdout + done.stderr)
            self.assertNotEqual(self.curl("", daemon.line[2], "Overview", "{}").returncode, 0)

    def curl(self, who, console, method, body):
        identity = ["--cert", f"{self.folder}/{who}.pem", "--key", f"{self.folder}/{who}.key"] if who else []
        return subprocess.run(
            ["curl", "-sS", "--noproxy", "*", "-m", "30", "--cacert", f"{self.folder}/ca.pem",
             *identity, "-w", "%{http_code}", "-H", "Content-Type: application/json",
             "-H", "X-Idempotency-Console: 1", "-d", body, f"https://{console}/api/{method}"],
            capture_output=True, text=True, timeout=60, check=False)

    def test_another_tenant_does_not_write_its_records(self):
        with self.daemon() as daemon:
            charged = self.charge(daemon, "orders")
            self.assertNotEqual(charged.returncode, 0)
            # The guard's permission, which does not concern the guard's caller.
            self.assertIn("STORE_UNAVAILABLE", charged.stdout + charged.stderr)
            self.assertIn("refuses this server's request", charged.stdout + charged.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

#!/usr/bin/env python3
"""`docker compose config` accepts docker-compose.yml, by the real docker compose: of this machine, or
built by Go from its module, once for a build folder, which takes two minutes.

usage: compose_config_test.py PROJECT_ROOT BUILD_FOLDER
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

MODULE = "github.com/docker/compose/v2/cmd@v2.29.7"
ROOT, BUILD = map(pathlib.Path, sys.argv[1:3])


def compose():
    """The words before `config`."""
    if shutil.which("docker"):
        done = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if done.returncode == 0:
            return ["docker", "compose"]
    tools = BUILD / "tools"
    # The name of the program decides whether it is a plugin of docker.
    program = tools / "docker-compose"
    if not program.exists():
        subprocess.run(["go", "install", MODULE], env={**os.environ, "GOBIN": str(tools)}, check=True)
        (tools / "cmd").rename(program)
    return [str(program)]


class ComposeConfigTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.compose = compose()

    def config(self, file):
        return subprocess.run([*self.compose, "-f", str(file), "--profile", "operator", "config"],
                              capture_output=True, text=True, check=False, timeout=120)

    @staticmethod
    def services():
        return yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]

    def test_the_file_is_accepted(self):
        done = self.config(ROOT / "docker-compose.yml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("level=warning", done.stderr)
        self.assertIn("--keyring=/run/keyring/keyring", done.stdout)

    def test_the_replicas_log_in_with_roles_of_their_own(self):
        logins = self.services()["logins"]["command"][0]
        self.assertIn("--file=/run/passwords/logins.sql", logins)
        made = self.services()["password"]["command"][0]
        replica = self.services()["idempotencyd-1"]["command"]
        for flag, login in [("store", "calls"), ("maintenance_store", "maintenance")]:
            self.assertIn(f"--{flag}=postgresql://{login}@postgres:5432/idempotency", replica)
            self.assertRegex(made, rf"idempotency_\w+ TO {login}'")

    def test_a_wrong_file_is_not(self):
        text = (ROOT / "docker-compose.yml").read_text()
        for right, wrong in [("service_healthy", "service_fine"), ("  keyring:\n    image", "  keyring:\n    imag"),
                             ("- keyring:/run/keyring:ro", "- key:/run/keyring:ro")]:
            self.assertIn(right, text)
            with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
                file.write(text.replace(right, wrong))
                file.flush()
                self.assertNotEqual(self.config(file.name).returncode, 0, wrong)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

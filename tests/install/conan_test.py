"""`conan create` with Debian's libraries: the recipe builds the client, and a project of another
one links the package. Conan comes from PyPI (`pip install conan`); its registry is not used."""

import os
import subprocess
import sys
import tempfile
import unittest

from .outside_project import ROOT

CONAN = os.environ.get("IDEMPOTENCY_CONAN", "conan")
PROFILE = ROOT / "tests/install/conan/debian-12.profile"


class ConanTest(unittest.TestCase):

    def setUp(self):
        self.home = tempfile.TemporaryDirectory(prefix="idempotency-conan.")
        self.addCleanup(self.home.cleanup)
        self.conan("profile", "detect")

    def conan(self, *arguments):
        done = subprocess.run([CONAN, *arguments], cwd=ROOT, capture_output=True, text=True,
                              check=False, env={**os.environ, "CONAN_HOME": self.home.name})
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout + done.stderr

    def test_a_client_is_built_against_the_package(self):
        said = self.conan("create", ".", "--no-remote", "-pr:a", "default", "-pr:a", str(PROFILE),
                          "-o", "&:server_guard=False")
        self.assertIn("Running test()", said)


if __name__ == "__main__":
    sys.exit(unittest.main())

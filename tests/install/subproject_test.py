"""This project below another one: it builds the linked targets, and sets nothing for the
rest."""

import re
import subprocess
import unittest

from .outside_project import ROOT, outside_project


class SubprojectTest(unittest.TestCase):

    def setUp(self):
        self.tree = outside_project(self, "subproject")
        (self.tree / "third_party").mkdir()
        (self.tree / "third_party/grpc-idempotency").symlink_to(ROOT)
        self.build = self.tree / "build"

    def run_in_tree(self, *command):
        done = subprocess.run(command, cwd=self.tree, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        return done.stdout

    def configure(self, *settings):
        return self.run_in_tree("cmake", "-G", "Ninja", "-S", ".", "-B", "build", *settings)

    def would_compile(self, target):
        """The sources of this project that building it compiles."""
        steps = self.run_in_tree("ninja", "-C", "build", "-n", "-v", target)
        return set(re.findall(r"grpc-idempotency/(\S+\.cc)$", steps, re.MULTILINE))

    def test_sets_nothing_for_others(self):
        self.configure()
        self.assertEqual((self.build / "settings.txt").read_text(), "")
        targets = (self.build / "targets.txt").read_text().split(";")
        self.assertGreater(len(targets), 10)
        self.assertEqual([name for name in targets if not name.startswith("idempotency")], [])

    def test_builds_neither_tests_nor_the_daemon(self):
        self.configure()
        self.assertFalse((self.build / "CTestTestfile.cmake").exists())
        targets = (self.build / "targets.txt").read_text().split(";")
        self.assertEqual([name for name in targets if name.endswith("_test")], [])
        self.assertNotIn("idempotencyd", targets)

    def test_a_client_needs_neither_a_store_nor_the_guard(self):
        self.configure("-DIDEMPOTENCY_BUILD_GUARD=OFF")
        cache = (self.build / "CMakeCache.txt").read_text()
        for package in ("pqxx", "SQLite3", "prometheus"):
            self.assertFalse(package in cache, package)
        sources = self.would_compile("all")
        self.assertIn("interceptors/client/client_interceptor.cc", sources)
        self.assertEqual([name for name in sources
                          if name.startswith(("interceptors/server", "server", "tests"))], [])

    def test_a_guarded_server_needs_no_daemon(self):
        self.configure("-DIDEMPOTENCY_POSTGRES=OFF")
        cache = (self.build / "CMakeCache.txt").read_text()
        for package in ("pqxx", "prometheus"):
            self.assertFalse(package in cache, package)
        sources = self.would_compile("orders_server")
        self.assertIn("interceptors/server/ledger/sqlite_ledger.cc", sources)
        self.assertEqual([name for name in sources if name.startswith(("server", "tests"))], [])

    def test_what_includes_it_compiles(self):
        self.configure()
        self.run_in_tree("ninja", "-C", "build",
                         "CMakeFiles/orders_client.dir/orders_client.cc.o",
                         "CMakeFiles/orders_server.dir/orders_server.cc.o")


if __name__ == "__main__":
    unittest.main()

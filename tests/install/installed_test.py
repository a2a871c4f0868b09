"""The installed files of a build: other projects find, compile and link them, by CMake and by
pkg-config."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from .installation import built, flags, installed, run, setting
from .outside_project import outside_project

ROOT = pathlib.Path(__file__).resolve().parents[2]


class InstalledTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="idempotency-installed.")
        cls.addClassCleanup(folder.cleanup)
        cls.prefix = pathlib.Path(folder.name) / "usr"
        cls.files = installed(cls.prefix)
        cls.pkgconfig = next(cls.prefix.rglob("grpc-idempotency-core.pc")).parent

    def test_headers_are_the_public_ones(self):
        headers = {file for file in self.files if file.endswith(".h")}
        self.assertIn("include/grpc_idempotency/errors.h", headers)
        self.assertIn("include/grpc_idempotency/ledger/postgres_ledger.h", headers)
        self.assertIn("include/idempotency/v1/options.pb.h", headers)
        self.assertEqual([file for file in headers if not file.startswith(
            ("include/grpc_idempotency/", "include/idempotency/v1/"))], [])

    def test_a_component_has_its_own_files(self):
        with tempfile.TemporaryDirectory() as folder:
            files = installed(pathlib.Path(folder), "core", "client", "client_interceptor")
        self.assertIn("include/idempotency/v1/options.proto", files)
        for part in ("server_guard", "ledger", "embedded", "sqlite", "bin/"):
            self.assertEqual([file for file in files if part in file], [], part)

    def test_the_daemon_runs_where_it_was_put(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix = pathlib.Path(folder)
            installed(prefix, *(["core", "error_reflection", "otlp", "postgres", "embedded"]
                                if setting("BUILD_SHARED_LIBS") == "ON" else []), "daemon")
            self.assertIn("idempotencyd", run(prefix / "bin/idempotencyd", "--version"))

    def test_a_client_is_built_against_it(self):
        build = built(self, "client", self.prefix)
        # UNAVAILABLE: nothing listens there.
        self.assertEqual(subprocess.run([build / "orders_client", "127.0.0.1:1"],
                                        check=False).returncode, 14)

    def test_a_guarded_server_is_built_against_it(self):
        build = built(self, "guarded_server", self.prefix)
        # Without a namespace there is no guard: it links, runs and refuses.
        self.assertEqual(subprocess.run([build / "orders_server", "127.0.0.1:1"],
                                        check=False).returncode, 1)

    def test_other_languages_take_the_protos_as_they_are(self):
        protos = sorted(str(path) for path in
                        (self.prefix / "include/idempotency/v1").glob("*.proto"))
        with tempfile.TemporaryDirectory() as folder:
            run("protoc", f"-I{self.prefix}/include", f"--java_out={folder}",
                f"--csharp_out={folder}", f"--python_out={folder}", *protos)
            made = pathlib.Path(folder)
            self.assertTrue((made / "dev/grpcidempotency/v1/Policy.java").exists())
            self.assertTrue((made / "idempotency/v1/options_pb2.py").exists())
            self.assertIn("namespace GrpcIdempotency.V1", (made / "Options.cs").read_text())
        # protoc-gen-go refuses a file without this option.
        for proto in protos:
            self.assertRegex(pathlib.Path(proto).read_text(), r"(?m)^option go_package = ")

    def test_code_of_a_proto_with_policies_finds_that_of_the_options(self):
        """By the recipe of the page."""
        page = (ROOT / "docs/other_languages.md").read_text(encoding="utf-8")
        recipe = page[page.index("\n**Python**"):page.index("\n**Node**")]
        protos = re.findall(r"idempotency/v1/\w+\.proto", recipe)
        with tempfile.TemporaryDirectory() as folder:
            run("protoc", f"-I{self.prefix}/include", f"-I{ROOT / 'examples/payments'}",
                f"--python_out={folder}", *protos, "payments.proto")
            run("/usr/bin/python3", "-c", "import payments_pb2", PYTHONPATH=folder)

    def test_a_missing_component_is_named(self):
        tree = outside_project(self, "client")
        text = (tree / "CMakeLists.txt").read_text()
        (tree / "CMakeLists.txt").write_text(text.replace("client_interceptor)", "courier)", 1))
        with self.assertRaisesRegex(AssertionError, "courier"):
            run("cmake", "-G", "Ninja", "-S", tree, "-B", tree / "build",
                f"-DCMAKE_PREFIX_PATH={self.prefix}")

    def test_pkg_config_lists_what_a_client_links(self):
        tree = outside_project(self, "client")
        run("protoc", f"-I{self.prefix}/include", "-I.", "--cpp_out=.", "--grpc_out=.",
            f"--plugin=protoc-gen-grpc={setting('IDEMPOTENCY_GRPC_CPP_PLUGIN')}", "orders.proto",
            folder=tree)
        package = "grpc-idempotency-client_interceptor"
        found = run("pkg-config", "--cflags", "--libs", package,
                    PKG_CONFIG_PATH=str(self.pkgconfig)).split()
        run(setting("CMAKE_CXX_COMPILER"), "-std=c++17", *flags(), "-I.", "orders_client.cc",
            "orders.pb.cc", "orders.grpc.pb.cc", "-o", "orders_client", *found, folder=tree)


if __name__ == "__main__":
    sys.exit(unittest.main())

"""The packages that scripts/packages.sh has built: their files, their dependencies, and Debian's
own checks."""

import pathlib
import re
import subprocess
import tempfile
import unittest

from .packages import BUILD, CTL, DAEMON, LIBRARIES, field, files, output, package, packaged_again

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [str(page.relative_to(ROOT / "docs")) for suffix in ("md", "svg")
         for page in (ROOT / "docs").rglob(f"*.{suffix}")]
# Findings of lintian that stay, each with its reason.
ACCEPTED = {
    # Nothing is uploaded to Debian, so there is no bug to close.
    "initial-upload-closes-no-bugs",
    # /etc/idempotency/credentials, which root alone reads.
    "non-standard-dir-perm",
}
COMPONENTS = ["client", "client_interceptor", "core", "embedded", "error_reflection", "guard_tracing",
              "key_store_sqlite", "ledger_postgres", "ledger_sqlite", "otlp", "postgres",
              "server_guard"]


class ContentsTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.daemon, cls.ctl, cls.libraries = package(DAEMON), package(CTL), package(LIBRARIES)

    def test_the_daemon_has_its_files_and_no_more(self):
        self.assertEqual({name: mode for name, (mode, _) in files(self.daemon).items()
                          if not mode.startswith("d")}, {
            "/usr/bin/idempotencyd": "-rwxr-xr-x",
            "/lib/systemd/system/idempotencyd.service": "-rw-r--r--",
            "/lib/systemd/system/idempotencyd@.service": "-rw-r--r--",
            "/lib/systemd/system/idempotencyd-migrate.service": "-rw-r--r--",
            "/etc/default/idempotencyd": "-rw-r--r--",
            "/etc/idempotency/idempotencyd.textproto": "-rw-r--r--",
            "/usr/share/idempotencyd/prometheus/idempotencyd.rules.yaml": "-rw-r--r--",
            "/usr/share/idempotencyd/grafana/idempotencyd.json": "-rw-r--r--",
            "/usr/share/man/man1/idempotencyd.1.gz": "-rw-r--r--",
            **{f"/usr/share/doc/idempotencyd/{page}": "-rw-r--r--" for page in PAGES},
            "/usr/share/doc/idempotencyd/changelog.gz": "-rw-r--r--",
            "/usr/share/doc/idempotencyd/changelog.Debian.gz": "-rw-r--r--",
            "/usr/share/doc/idempotencyd/copyright": "-rw-r--r--",
        })

    def test_the_command_line_has_its_files_and_no_more(self):
        self.assertEqual({name: mode for name, (mode, _) in files(self.ctl).items()
                          if not mode.startswith("d")}, {
            "/usr/bin/idempotencyctl": "-rwxr-xr-x",
            "/usr/share/man/man1/idempotencyctl.1.gz": "-rw-r--r--",
            "/usr/share/bash-completion/completions/idempotencyctl": "-rw-r--r--",
            "/usr/share/zsh/vendor-completions/_idempotencyctl": "-rw-r--r--",
            "/usr/share/fish/vendor_completions.d/idempotencyctl.fish": "-rw-r--r--",
            "/usr/share/doc/idempotencyctl/changelog.gz": "-rw-r--r--",
            "/usr/share/doc/idempotencyctl/changelog.Debian.gz": "-rw-r--r--",
            "/usr/share/doc/idempotencyctl/copyright": "-rw-r--r--",
        })

    def test_root_owns_everything_and_alone_reads_credentials(self):
        for deb in (self.daemon, self.ctl, self.libraries):
            self.assertEqual({owner for _, owner in files(deb).values()}, {"root/root"})
        self.assertEqual(files(self.daemon)["/etc/idempotency/credentials"][0], "drwx------")

    def test_settings_are_configuration_files(self):
        text = output("dpkg-deb", "--info", self.daemon, "conffiles")
        self.assertEqual(sorted(text.split()), sorted(
            name for name, (mode, _) in files(self.daemon).items()
            if name.startswith("/etc/") and mode.startswith("-")))

    def test_the_libraries_have_every_component(self):
        names = files(self.libraries)
        self.assertEqual(sorted(re.findall(r"grpc-idempotency-(\w+)\.pc", " ".join(names))),
                         COMPONENTS)
        self.assertIn("/usr/include/grpc_idempotency/server_guard/server_guard.h", names)
        self.assertIn("/usr/include/idempotency/v1/options.proto", names)
        self.assertIn("/usr/share/grpc-idempotency/examples/payments/payments_server.cc", names)
        self.assertEqual([name for name in names if name.startswith(("/usr/bin", "/etc", "/lib"))
                          and "." in name], [])
        self.assertTrue(any(re.fullmatch(r"/usr/lib/[\w-]+-linux-gnu/libidempotency_core\.a", name)
                            for name in names))

    def test_dependencies_are_of_the_program(self):
        depends = field(self.daemon, "Depends")
        for name in ("libgrpc++1.51", "libpqxx-6.4", "libhiredis0.14", "libsqlite3-0", "libssl3", "libc6",
                     "adduser"):
            self.assertRegex(depends, rf"(^|, ){re.escape(name)}( \(|,|$)")
        self.assertNotRegex(depends, "-dev|sanitizer|libasan")

    def test_version_and_architecture(self):
        version = (ROOT / "VERSION").read_text().strip()
        for deb in (self.daemon, self.ctl, self.libraries):
            self.assertEqual(field(deb, "Version"), f"{version}-1")
            self.assertEqual(field(deb, "Architecture"),
                             output("dpkg", "--print-architecture").strip())

    def test_the_program_is_hardened_and_has_no_path_of_the_build(self):
        with tempfile.TemporaryDirectory() as folder:
            output("dpkg-deb", "--extract", self.daemon, folder)
            program = pathlib.Path(folder, "usr/bin/idempotencyd")
            header = output("readelf", "--wide", "--dynamic", "--program-headers", program)
            self.assertIn("BIND_NOW", header)
            self.assertIn("GNU_RELRO", header)
            self.assertRegex(header, r"FLAGS_1\).*PIE")
            self.assertNotRegex(header, "RPATH|RUNPATH")
            self.assertIn("__stack_chk_fail", output("readelf", "--wide", "--dyn-syms", program))
            self.assertNotIn(str(ROOT).encode(), program.read_bytes())

    def test_two_packagings_are_equal(self):
        with tempfile.TemporaryDirectory() as folder:
            again = packaged_again(pathlib.Path(folder), 1)
            for name in (DAEMON, CTL, LIBRARIES):
                self.assertEqual(output("dpkg-deb", "--info", package(name, again), "md5sums"),
                                 output("dpkg-deb", "--info", package(name), "md5sums"))

    def test_lintian_finds_nothing_new(self):
        for deb in (self.daemon, self.ctl, self.libraries):
            done = subprocess.run(
                ["lintian", "--allow-root", "--fail-on", "none", "--tag-display-limit", "0", deb],
                capture_output=True, text=True, check=True)
            found = {line for line in done.stdout.splitlines()
                     if line.startswith(("E:", "W:")) and line.split()[2] not in ACCEPTED}
            self.assertEqual(found, set(), f"{deb}, build {BUILD}")


if __name__ == "__main__":
    unittest.main()

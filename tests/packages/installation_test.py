"""The packages in a clean Debian 12: installed, served from, upgraded, removed and purged; and a
project built with the installed libraries. As root; scripts/packages.sh --test runs it.

Without systemd: the service is started with the user, the settings, the credentials and the command
line of its unit. boot_test.py starts it by systemd, in its sandbox."""

import base64
import pathlib
import re
import shutil
import tempfile
import unittest

from .chroot import Chroot
from .packages import DAEMON, LIBRARIES, field, package, packaged_again
from .service import Service

PROJECTS = pathlib.Path(__file__).resolve().parents[1] / "install"
DEFAULTS = "/etc/default/idempotencyd"
RECORDS = "/var/lib/idempotency/records.db"
KEY = {"namespace": "payments", "scope": "tenant-1", "operation": "/payments.v1.Payments/Charge",
       "key": "order-1"}
RESERVE = {"record_key": KEY, "on_lease_expiry": "LEASE_EXPIRY_TAKE_OVER",
           "fingerprints": [{"version": 1, "digest": base64.b64encode(bytes(32)).decode()}]}
BODY = base64.b64encode(b"charged").decode()


class InstallationTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.debian = Chroot()
        cls.addClassCleanup(cls.debian.remove)

    def served(self):
        service = Service(self.debian)
        service.start()
        self.addCleanup(lambda: service.process.poll() is None and service.stop())
        return service

    def assert_replayed(self, service):
        self.assertEqual(service.call("Reserve", RESERVE)["replay"]["reply"]["body"], BODY)

    def upgraded(self):
        """The path there of a package of the same program with a higher version."""
        with tempfile.TemporaryDirectory() as folder:
            newer = package(DAEMON, packaged_again(pathlib.Path(folder), 2))
            self.assertGreater(field(newer, "Version"), field(package(DAEMON), "Version"))
            return self.debian.put(newer)

    def test_the_life_of_an_installation(self):
        debian, deb = self.debian, package(DAEMON)
        needs = [re.match(r"\S+", one)[0] for one in field(deb, "Depends").split(", ")]
        debian.install(*needs)
        before, users = debian.files(), debian.path("/etc/passwd").read_text()

        debian.install(debian.put(deb))
        self.assertTrue(debian.path("/etc/systemd/system/multi-user.target.wants/"
                                    "idempotencyd.service").is_symlink())
        self.assertEqual(debian.status("cat", RECORDS, user="idempotency")[0], 1)
        debian.path("/etc/idempotency/credentials/pgpass").write_text("host:5432:db:user:word\n")
        service = self.served()
        self.assertEqual(service.health(), 0)
        token = service.call("Reserve", RESERVE)["reserved"]["reservation_token"]
        service.call("Complete", {"record_key": KEY, "reservation_token": token,
                                  "reply": {"body": BODY}})
        self.assert_replayed(service)
        self.assert_private(RECORDS)
        self.assert_private("/run/credentials/idempotencyd.service/secret_pgpass")
        service.stop()

        settings = debian.path(DEFAULTS)
        settings.write_text(settings.read_text().replace(
            "IDEMPOTENCYD_FLAGS=\n", "IDEMPOTENCYD_FLAGS='--log_level=warn --queue_mib=64'\n"))
        debian.install(self.upgraded())
        self.assertTrue(debian.run("dpkg-query", "-W", "-f", "${Version}", DAEMON).endswith("-2"))
        self.assertIn("--queue_mib=64", settings.read_text())
        service = self.served()
        self.assert_replayed(service)
        service.stop()

        debian.run("apt-get", "remove", "-y", "-qq", DAEMON)
        self.assertFalse(debian.path("/usr/bin/idempotencyd").exists())
        self.assertTrue(debian.path(RECORDS).exists() and settings.exists())
        debian.install(debian.put(deb))
        service = self.served()
        self.assert_replayed(service)
        service.stop()

        debian.run("apt-get", "purge", "-y", "-qq", DAEMON)
        self.assertEqual(debian.files() - before, set())
        self.assertEqual(debian.path("/etc/passwd").read_text(), users)

    def assert_private(self, name):
        """Of the service's user, and readable by no other."""
        self.assertRegex(self.debian.run("stat", "-c", "%U %a", name), r"^idempotency [46]00$")
        self.debian.run("test", "-r", name, user="idempotency")
        self.assertEqual(self.debian.status("test", "-r", name, user="nobody")[0], 1)

    def test_a_project_is_built_with_the_libraries(self):
        debian = self.debian
        debian.install("cmake", "ninja-build", "g++", debian.put(package(LIBRARIES)))
        for project in ("client", "guarded_server"):
            tree = debian.path(f"/tmp/{project}")
            shutil.copytree(PROJECTS / project, tree)
            shutil.copytree(PROJECTS / "sources", tree, dirs_exist_ok=True)
            debian.run("cmake", "-G", "Ninja", "-S", f"/tmp/{project}", "-B", f"/tmp/{project}/b")
            debian.run("cmake", "--build", f"/tmp/{project}/b")
        # UNAVAILABLE: nothing listens there.
        self.assertEqual(debian.status("/tmp/client/b/orders_client", "127.0.0.1:1")[0], 14)
        # Without a namespace there is no guard: it links, runs and refuses.
        self.assertEqual(debian.status("/tmp/guarded_server/b/orders_server", "127.0.0.1:1")[0], 1)
        for name in debian.path("/usr/lib").glob("*/pkgconfig/grpc-idempotency-*.pc"):
            debian.run("pkg-config", "--cflags", "--libs", name.stem)
        debian.run("apt-get", "purge", "-y", "-qq", LIBRARIES)
        self.assertFalse(debian.path("/usr/include/grpc_idempotency").exists())


if __name__ == "__main__":
    unittest.main()

"""The service under systemd, in its sandbox, in a clean Debian 12 that is booted as a container:
started at boot, given its secrets, restarted after a crash and by an upgrade, stopped by a purge.
As root; scripts/packages.sh --test runs it."""

import base64
import pathlib
import tempfile
import unittest

from .chroot import Chroot
from .machine import Machine
from .packages import DAEMON, package, packaged_again

KEY = {"namespace": "payments", "scope": "tenant-1", "operation": "/payments.v1.Payments/Charge",
       "key": "order-1"}
RESERVE = {"record_key": KEY, "on_lease_expiry": "LEASE_EXPIRY_TAKE_OVER",
           "fingerprints": [{"version": 1, "digest": base64.b64encode(bytes(32)).decode()}]}
BODY = base64.b64encode(b"charged").decode()
SECRET = "/run/credentials/idempotencyd.service/secret_pgpass"


class BootTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        debian = Chroot()
        cls.addClassCleanup(debian.remove)
        debian.install("systemd", "systemd-sysv", debian.put(package(DAEMON)))
        debian.path("/etc/idempotency/credentials/pgpass").write_text("host:5432:db:user:word\n")
        with tempfile.TemporaryDirectory() as folder:
            cls.newer = debian.put(package(DAEMON, packaged_again(pathlib.Path(folder), 2)))
        # From here on packages start their services.
        debian.path("/usr/sbin/policy-rc.d").unlink()
        cls.machine = Machine(debian)
        cls.addClassCleanup(cls.machine.power_off)

    def main_process(self):
        self.assertEqual(self.machine.status("systemctl", "is-active", DAEMON)[1].strip(), "active",
                         self.machine.status("systemctl", "status", "--no-pager", DAEMON)[1])
        return self.machine.run("systemctl", "show", "--property=MainPID", "--value", DAEMON)

    def assert_replayed(self):
        self.assertEqual(self.machine.call("Reserve", RESERVE)["replay"]["reply"]["body"], BODY)

    def test_the_service_of_a_machine(self):
        machine = self.machine
        token = machine.call("Reserve", RESERVE)["reserved"]["reservation_token"]
        machine.call("Complete", {"record_key": KEY, "reservation_token": token,
                                  "reply": {"body": BODY}})
        first = self.main_process()
        state = machine.run("cat", f"/proc/{first}/status")
        self.assertRegex(state, r"(?m)^CapEff:\s0+$")
        self.assertRegex(state, r"(?m)^NoNewPrivs:\s1$")
        # 2: a filter.
        self.assertRegex(state, r"(?m)^Seccomp:\s2$")
        # libpq refuses a password file that others may read.
        self.assertEqual(machine.run("stat", "--format=%U %a", SECRET), "idempotency 400")

        machine.run("systemctl", "kill", "--signal=KILL", DAEMON)
        self.assert_replayed()
        second = self.main_process()
        self.assertNotEqual(second, first)

        machine.run("apt-get", "install", "-y", "-qq", self.newer)
        self.assert_replayed()
        self.assertNotEqual(self.main_process(), second)

        self.assertEqual(machine.status("systemctl", "is-enabled", "idempotencyd-migrate")[1].strip(),
                         "static")

        machine.run("apt-get", "purge", "-y", "-qq", DAEMON)
        self.assertNotEqual(machine.status("pidof", "idempotencyd")[0], 0)
        self.assertEqual(machine.run("systemctl", "show", "--property=LoadState", "--value", DAEMON),
                         "not-found")
        self.assertEqual(machine.status("test", "-e", "/var/lib/idempotency")[0], 1)
        self.assertNotEqual(machine.status("getent", "passwd", "idempotency")[0], 0)


if __name__ == "__main__":
    unittest.main()

"""The files of the packages, without a build of them: the sandbox of the units, and the settings
against the flags that idempotencyd has."""

import os
import pathlib
import re
import subprocess
import unittest

from .service_unit import ServiceUnit

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DEBIAN = DEPLOY / "debian"
BIN = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"]) / "bin"
UNITS = [DEPLOY / name for name in ("idempotencyd.service", "idempotencyd@.service",
                                    "idempotencyd-migrate.service")]
# Of 10. What remains is the network, which the service needs.
EXPOSURE = 1.2


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def expanded(unit):
    """The unit's command line with the settings that the package installs."""
    service = ServiceUnit(unit)
    environment = {}
    for line in (DEBIAN / "idempotencyd.default").read_text().splitlines():
        if line and not line.startswith("#"):
            name, value = line.split("=", 1)
            environment[name] = value
    return service.command(environment)


class UnitTest(unittest.TestCase):

    def test_the_units_are_sandboxed(self):
        for unit in UNITS:
            status, out = run("systemd-analyze", "security", "--offline=true", "--no-pager",
                              f"--threshold={round(EXPOSURE * 10)}", unit)
            found = re.search(r"Overall exposure level for \S+: ([\d.]+)", out)
            self.assertIsNotNone(found, out)
            self.assertEqual((status, float(found[1])), (0, EXPOSURE), out)

    def test_all_units_have_the_same_sandbox(self):
        one, *others = [ServiceUnit(unit).settings for unit in UNITS]
        sandbox = {name for name in one if name.startswith(("Protect", "Private", "Restrict",
                                                            "SystemCall", "Capability"))}
        self.assertGreater(len(sandbox), 15)
        for other in others:
            for name in set(one) & set(other) - {"Description", "Type", "EnvironmentFile", "ExecStart"}:
                self.assertEqual(one[name], other[name], name)
            self.assertLessEqual(sandbox, set(other))

    def test_a_replica_is_the_service_with_addresses_of_its_own(self):
        one, replica, _ = [ServiceUnit(unit).settings for unit in UNITS]
        self.assertEqual({name for name in one if one[name] != replica[name]},
                         {"Description", "EnvironmentFile"})
        self.assertEqual(replica["EnvironmentFile"],
                         [*one["EnvironmentFile"], "/etc/default/idempotencyd-%i"])

    def test_every_argument_is_a_flag(self):
        for unit in UNITS:
            program, command, *arguments = expanded(unit)
            self.assertEqual(program, "/usr/bin/idempotencyd")
            _, known = run(BIN / "idempotencyd", command, "--help")
            for argument in arguments:
                self.assertRegex(known, rf"(?m)^\s*{re.escape(argument.split('=')[0])}=", argument)
        # What the comments propose as well.
        known = "".join(run(BIN / "idempotencyd", command, "--help")[1]
                        for command in ("serve", "migrate"))
        for flag in re.findall(r"--\w+", (DEBIAN / "idempotencyd.default").read_text()):
            if flag != "--help":
                self.assertRegex(known, rf"(?m)^  {flag}\b")

    def test_the_configuration_is_valid(self):
        status, out = run(BIN / "idempotencyd", "check-config",
                          f"--config={DEBIAN / 'idempotencyd.textproto'}")
        self.assertEqual(status, 0, out)

    def test_the_manual_page_has_every_command(self):
        _, known = run(BIN / "idempotencyd", "--help")
        commands = set(re.findall(r"(?m)^  idempotencyd ([a-z-]+)", known)) - {"--help"}
        self.assertIn("serve", commands)
        page = (DEPLOY / "idempotencyd.1").read_text().replace("\\-", "-")
        for command in commands:
            self.assertRegex(page, rf"(?m)^\.B {command}$", command)
            self.assertIn(f".B idempotencyd {command}", page)


if __name__ == "__main__":
    unittest.main()

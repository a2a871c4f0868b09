"""The files of the packages, without a build of them: the sandbox of the units, and the settings
against the flags that idempotencyd has."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from .service_unit import ServiceUnit

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DEBIAN = DEPLOY / "debian"
BIN = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"]) / "bin"
SCRIPTS = DEBIAN / "idempotencyd"
UNITS = [DEPLOY / name for name in ("idempotencyd.service", "idempotencyd@.service",
                                    "idempotencyd-migrate.service")]
# The exposure, of 10: only the network remains, which the service needs.
EXPOSURE = 1.2


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def upgraded(store, enabled=True):
    """What postinst starts in an upgrade, by systemd's helpers, and what it prints."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "default").write_text(f"#IDEMPOTENCYD_STORE=sqlite:commented\n{store}\n")
        script = (SCRIPTS / "postinst").read_text().replace(
            "/etc/default/idempotencyd", str(folder / "default")).replace(
            "/run/systemd/system", name)
        for program in ("adduser", "install", "systemctl", "deb-systemd-helper",
                        "deb-systemd-invoke"):
            fails = program == "systemctl" and not enabled
            file = folder / program
            file.write_text(f'#!/bin/sh\necho "{program} $*" >> {folder}/calls\n'
                            + ('case "$*" in *is-enabled*) exit 1 ;; esac\n' if fails else ""))
            file.chmod(0o755)
        done = subprocess.run(["sh", "-s", "configure", "0.1.0"], input=script, text=True, check=True,
                              capture_output=True, env={"PATH": f"{folder}:/usr/bin:/bin"})
        calls = (folder / "calls").read_text()
    return re.findall(r"(?m)^deb-systemd-invoke (\w+) idempotencyd.service$", calls), done.stdout


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

    # A package that is upgraded keeps the operator's file of settings, which may lack newer names.
    def test_a_listener_without_an_address_is_left_out(self):
        _, _, *arguments = expanded(UNITS[0])
        for empty in ("--console=", "--ext_proc="):
            self.assertIn(empty, arguments)
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(
                [BIN / "idempotencyd", "serve", f"--store=sqlite:{folder}/records.db",
                 "--listen=127.0.0.1:0", "--metrics=", "--console=", "--ext_proc="],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as daemon:
            ready = daemon.stdout.readline()
            daemon.terminate()
        self.assertRegex(ready, r"^idempotencyd: serving on 127\.0\.0\.1:\d+$")

    def test_a_replica_names_each_address_of_its_own(self):
        addresses = set(re.findall(r"--(\w+)=\$\{IDEMPOTENCYD_(\w+)\}",
                                   ServiceUnit(UNITS[1]).one("ExecStart"))) - {("store", "STORE")}
        self.assertEqual({flag.upper() for flag, _ in addresses}, {name for _, name in addresses})
        text = UNITS[1].read_text()
        for _, name in addresses:
            self.assertRegex(text, rf"(?m)^#.*_{name}\b")

    def test_a_service_that_fails_is_started_again_without_a_limit(self):
        for unit in UNITS[:2]:
            service = ServiceUnit(unit)
            self.assertEqual((service.one("Restart"), service.one("RestartSec"),
                              service.one("StartLimitIntervalSec")), ("always", "2", "0"), unit)

    # An index that is interrupted is built again from its beginning.
    def test_no_time_limit_ends_a_migration(self):
        self.assertEqual(ServiceUnit(UNITS[2]).one("TimeoutStartSec"), "infinity")

    def test_an_upgrade_restarts_the_service_unless_its_schema_is_migrated_first(self):
        for store in ("sqlite:/var/lib/idempotency/records.db", "'sqlite:/records.db'",
                      "rediss+cluster://app@redis-0:6379,redis-1:6379?tls_ca=/ca.crt"):
            self.assertEqual(upgraded(f"IDEMPOTENCYD_STORE={store}"), (["restart"], ""), store)
        for store in ("postgresql://u@db/x?sslmode=verify-full&sslrootcert=/ca.crt",
                      '"postgres://u@db/x"'):
            started, printed = upgraded(f"IDEMPOTENCYD_STORE={store}")
            self.assertEqual(started, [], store)
            self.assertEqual(re.findall(r"(?m)^  (systemctl .*)$", printed),
                             ["systemctl start idempotencyd-migrate",
                              "systemctl restart idempotencyd"])
            # Replicas, idempotencyd@a and so on, are restarted one after the other.
            self.assertEqual(upgraded(f"IDEMPOTENCYD_STORE={store}", enabled=False), ([], ""))

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

    # The package installs every page of docs/.
    def test_every_page_that_a_file_names_exists(self):
        texts = [path.read_text() for path in (*UNITS, DEBIAN / "idempotencyd.default",
                                               DEBIAN / "idempotencyd.textproto")]
        texts += [run(BIN / "idempotencyd", command, "--help")[1]
                  for command in ("serve", "migrate", "health", "check-config", "serve-testing")]
        pages = set(re.findall(r"(?:docs|share/doc/idempotencyd)/([a-z_]+\.md)", "".join(texts)))
        self.assertGreater(len(pages), 5)
        for page in pages:
            self.assertTrue((ROOT / "docs" / page).is_file(), page)

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

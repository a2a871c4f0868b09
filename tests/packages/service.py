"""The packaged service in a chroot, started as its unit says, but by this test. In a network of its own, so that the packaged port is free."""

import json
import os
import pathlib
import pwd
import shutil
import signal
import subprocess

from .service_unit import ServiceUnit

READY = b"serving on"
CALLER = pathlib.Path(__file__).with_name("caller.py")


class Service:

    def __init__(self, chroot):
        self.chroot = chroot
        self.unit = ServiceUnit(chroot.path("/lib/systemd/system/idempotencyd.service"))
        self.user = self.unit.one("User")

    def start(self):
        credentials = self._load_credentials()
        environment = self.unit.environment(self.chroot.root, credentials)
        words = self.chroot.command(*self.unit.command(environment), user=self.user)
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-euc", 'ip link set lo up; exec "$@"', "sh", *words],
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **environment},
            umask=int(self.unit.one("UMask"), 8), stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        assert READY in line, f"not started: {line}"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=60)
        self.process.stdout.close()
        assert status == 0, status

    def health(self):
        return self._inside(self.chroot.command("/usr/bin/idempotencyd", "health",
                                                "--address=127.0.0.1:7411")).returncode

    def call(self, method, request):
        """A unary call of the packaged service by Debian's Python with gRPC, as JSON."""
        done = self._inside(["/usr/bin/python3", str(CALLER), "127.0.0.1:7411", method,
                             json.dumps(request)])
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _inside(self, words):
        return subprocess.run(["nsenter", "--net", f"--target={self.process.pid}", *words],
                              capture_output=True, text=True, check=False, timeout=60,
                              env={**os.environ, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})

    def _load_credentials(self):
        """As LoadCredential= does for a folder: copies, which only the service's user reads."""
        name, source = self.unit.one("LoadCredential").split(":")
        folder = self.chroot.path("/run/credentials/idempotencyd.service")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        line = next(line for line in self.chroot.path("/etc/passwd").read_text().splitlines()
                    if line.startswith(f"{self.user}:"))
        owner = pwd.struct_passwd(line.split(":"))
        for file in self.chroot.path(source).iterdir():
            copy = folder / f"{name}_{file.name}"
            shutil.copy(file, copy)
            os.chown(copy, int(owner.pw_uid), int(owner.pw_gid))
            copy.chmod(0o400)
        return "/run/credentials/idempotencyd.service"

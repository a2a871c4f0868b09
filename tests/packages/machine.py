"""A chroot, booted: systemd is process 1 of a container without a network."""

import json
import os
import pathlib
import subprocess
import threading

BOOTED = "multi-user.target"
CALLER = pathlib.Path(__file__).with_name("caller.py")
PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
        "DEBIAN_FRONTEND": "noninteractive"}


class Machine:

    def __init__(self, chroot):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network",
             "--resolv-conf=off", "--boot", f"--directory={chroot.root}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, "SYSTEMD_COLORS": "0"})
        console = []
        for line in self.process.stdout:
            console.append(line)
            if BOOTED in line:
                break
        else:
            raise AssertionError("systemd did not boot: " + "".join(console[-20:]))
        # The console is a pipe, which must not fill.
        self.reader = threading.Thread(target=self.process.stdout.read)
        self.reader.start()
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.init = children.read_text().split()[0]

    def power_off(self):
        self.status("systemctl", "poweroff")
        self.process.wait(timeout=120)
        self.reader.join()
        self.process.stdout.close()

    def status(self, *words):
        """The exit status, and what was printed."""
        done = subprocess.run(["nsenter", "--all", f"--target={self.init}", *words],
                              capture_output=True, text=True, check=False, timeout=300, env=PATH)
        return done.returncode, done.stdout + done.stderr

    def paste(self, script, timeout):
        """What a shell of root prints that reads the script."""
        done = subprocess.run(["nsenter", "--all", f"--target={self.init}", "bash", "--norc", "-s"],
                              input=script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", check=False, timeout=timeout,
                              env={**PATH, "HOME": "/root",
                                   "PATH": f"/usr/local/sbin:/usr/local/bin:{PATH['PATH']}"})
        return done.stdout

    def run(self, *words):
        status, out = self.status(*words)
        if status != 0:
            raise AssertionError(f"{words}: {out[-4000:]}")
        return out.strip()

    def call(self, method, request):
        """A unary call of the packaged service by Debian's Python with gRPC, as JSON."""
        done = subprocess.run(
            ["nsenter", "--net", f"--target={self.init}", "/usr/bin/python3", str(CALLER),
             "127.0.0.1:7411", method, json.dumps(request)],
            capture_output=True, text=True, check=False, timeout=60, env=PATH)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return json.loads(done.stdout)

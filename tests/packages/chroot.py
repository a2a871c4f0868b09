"""A clean Debian 12 in a folder: made by debootstrap, or a copy of the one that
IDEMPOTENCY_DEBIAN names."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from .packages import output

MIRROR = "http://deb.debian.org/debian"
# Not of a package: lists, caches and logs of apt and dpkg.
VOLATILE = ("/proc", "/sys", "/dev", "/run", "/tmp", "/packages", "/var/cache", "/var/lib/apt",
            "/var/lib/dpkg", "/var/log", "/var/backups")
# The user databases before the last change, which adduser and deluser keep.
BACKUPS = {"/etc/passwd-", "/etc/shadow-", "/etc/group-", "/etc/gshadow-"}
# Programs that the package must not start on the machine of the test.
NO_SERVICES = "#!/bin/sh\nexit 101\n"


class Chroot:

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="idempotency-debian.", dir="/var/tmp"))
        try:
            self._fill()
        except BaseException:
            self.remove()
            raise

    def _fill(self):
        if base := os.environ.get("IDEMPOTENCY_DEBIAN"):
            output("cp", "-a", f"{base}/.", self.root)
        else:
            output("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm",
                   self.root, MIRROR)
        # As mkdtemp() makes it, root alone enters it.
        self.root.chmod(0o755)
        shutil.copy("/etc/resolv.conf", self.root / "etc/resolv.conf")
        policy = self.root / "usr/sbin/policy-rc.d"
        policy.write_text(NO_SERVICES)
        policy.chmod(0o755)
        (self.root / "packages").mkdir()
        self.run("apt-get", "update", "-qq")

    def remove(self):
        shutil.rmtree(self.root)

    def command(self, *words, user="root"):
        """The words that run a program there, with a /proc of its own that ends with it."""
        enter = 'mount -t proc proc "$1/proc"; user=$2; root=$1; shift 2;' \
                'exec chroot --userspec="$user:" "$root" "$@"'
        return ["unshare", "--mount", "--propagation=private", "sh", "-euc", enter, "sh",
                str(self.root), user, *[str(word) for word in words]]

    def status(self, *words, user="root"):
        """The exit status, and what was printed."""
        done = subprocess.run(
            self.command(*words, user=user), capture_output=True, text=True, check=False,
            timeout=900, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                              "DEBIAN_FRONTEND": "noninteractive"})
        return done.returncode, done.stdout + done.stderr

    def run(self, *words, user="root"):
        status, out = self.status(*words, user=user)
        if status != 0:
            raise AssertionError(f"{words}: {out[-4000:]}")
        return out

    def install(self, *names):
        return self.run("apt-get", "install", "-y", "-qq", "--no-install-recommends", *names)

    def put(self, deb):
        """The path there of a copy of a package."""
        shutil.copy(deb, self.root / "packages")
        return f"/packages/{deb.name}"

    def path(self, name):
        return self.root / name.lstrip("/")

    def files(self):
        """Every file and folder, but those that apt, dpkg and adduser keep for themselves."""
        found = set()
        for folder, folders, names in os.walk(self.root):
            here = "/" + os.path.relpath(folder, self.root) if folder != str(self.root) else ""
            folders[:] = [name for name in folders if f"{here}/{name}" not in VOLATILE]
            found.update(f"{here}/{name}" for name in [*folders, *names])
        return found - BACKUPS

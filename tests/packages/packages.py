"""The packages of a build of the preset `package`."""

import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"])
DAEMON = "idempotencyd"
CTL = "idempotencyctl"
LIBRARIES = "libgrpc-idempotency-dev"


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def package(name, folder=BUILD / "packages"):
    found = sorted(folder.glob(f"{name}_*.deb"))
    assert len(found) == 1, f"{folder} has {found}: run scripts/packages.sh"
    return found[0]


def field(deb, name):
    return output("dpkg-deb", "--field", deb, name).strip()


def files(deb):
    """Each file, link and folder, with its mode and owner."""
    found = {}
    for line in output("dpkg-deb", "--contents", deb).splitlines():
        mode, owner, _, _, _, name = line.split(None, 5)
        found[name.split(" -> ")[0].removeprefix(".").rstrip("/")] = (mode, owner)
    return found


def packaged_again(folder, release):
    """The same build as packages of another Debian release, in `folder`."""
    output("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder,
           "-D", f"CPACK_DEBIAN_PACKAGE_RELEASE={release}")
    return folder

#!/usr/bin/env python3
"""scripts/install-dependencies.sh, killed in the middle of installing Postgres, leaves the
machine's setting for clusters unchanged.

The packages' tools are replaced: apt-get kills the script that called it.

usage: install_dependencies_test.py PROJECT_ROOT
"""

import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

SETTINGS = pathlib.Path("/etc/postgresql-common")
APT_GET = """#!/bin/sh
case " $* " in
  *" install "*) printf %s "$PGSYSCONFDIR" > "$0.folder"; kill -9 "$PPID" ;;
esac
"""


def contents(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def killed_script(root, tools):
    """Its exit status, and the folder that it passed to pg_createcluster."""
    for name, text in {"apt-get": APT_GET, "dpkg": "#!/bin/sh\n", "dpkg-query": "#!/bin/sh\nexit 1\n",
                       "sudo": '#!/bin/sh\nshift\nexec "$@"\n'}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    done = subprocess.run([f"{root}/scripts/install-dependencies.sh", "postgres"], timeout=60, check=False,
                          env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}, capture_output=True)
    folder = tools / "apt-get.folder"
    return done.returncode, folder.read_text() if folder.exists() else ""


def faults(root):
    before = contents(SETTINGS)
    with tempfile.TemporaryDirectory() as tools:
        status, folder = killed_script(root, pathlib.Path(tools))
    if status != -signal.SIGKILL:
        yield f"the script was not killed: {status}"
    if contents(SETTINGS) != before:
        yield f"{SETTINGS} was changed"
    read = shutil.which("pg_conftool")
    if not folder:
        yield "the install had no PGSYSCONFDIR"
    elif read:
        # As pg_createcluster does before it creates a file.
        done = subprocess.run([read, f"{folder}/createcluster.conf", "show", "all"],
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode == 0 or "invalid line" not in done.stderr:
            yield f"pg_createcluster would not refuse {folder}: {done.stdout}{done.stderr}"


def main():
    found = list(faults(sys.argv[1]))
    print("\n".join(found) or "a killed install leaves nothing behind")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

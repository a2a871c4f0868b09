"""The build that the tests of this folder install, and its settings."""

import os
import pathlib
import re
import subprocess

from .outside_project import outside_project

BUILD = pathlib.Path(os.environ["IDEMPOTENCY_BUILD"])


def setting(name):
    """Of the build that is installed."""
    found = re.search(rf"^{name}:[A-Z]+=(.*)$", (BUILD / "CMakeCache.txt").read_text(),
                      re.MULTILINE)
    return found[1] if found else ""


def flags():
    """What all that is linked with the installed libraries has to be compiled with."""
    sanitizers = setting("IDEMPOTENCY_SANITIZE")
    return [*setting("CMAKE_CXX_FLAGS").split(),
            *([f"-fsanitize={sanitizers}"] if sanitizers else []),
            *(["--coverage"] if setting("IDEMPOTENCY_COVERAGE") == "ON" else [])]


def run(*command, folder=None, **environment):
    done = subprocess.run(command, cwd=folder, env={**os.environ, **environment},
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def installed(prefix, *components):
    """The files of the components, or all of them, in `prefix`."""
    for component in components or [None]:
        run("cmake", "--install", BUILD, "--prefix", prefix,
            *(["--component", component] if component else []))
    return {str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()}


def built(test, name, prefix):
    """tests/install/`name`, built against the installation in `prefix`: its build folder."""
    tree = outside_project(test, name)
    run("cmake", "-G", "Ninja", "-S", tree, "-B", tree / "build",
        f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_CXX_COMPILER={setting('CMAKE_CXX_COMPILER')}",
        f"-DCMAKE_CXX_FLAGS={' '.join(flags())}")
    run("cmake", "--build", tree / "build")
    return tree / "build"

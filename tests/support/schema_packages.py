"""Packages of PyPI that have schemas. scripts/install-dependencies.sh installs them outside of
Python's own folders."""

import pathlib
import sys
import unittest

FOLDER = pathlib.Path("/usr/local/lib/grpc-idempotency") / "python{}.{}".format(*sys.version_info)


def add(name, group):
    """Makes `name` and its dependencies importable. Without it the test is skipped, with the remedy:
    no registry may be in reach."""
    found = sorted(FOLDER.glob(f"{name}-*"))
    if not found:
        raise unittest.SkipTest(f"{name} is not in {FOLDER}: run scripts/install-dependencies.sh {group}")
    # In front: Debian's jsonschema is older than the package needs.
    sys.path.insert(0, str(found[-1]))

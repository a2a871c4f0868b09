"""An outside project, in a folder of its own."""

import pathlib
import shutil
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def outside_project(test, name):
    """tests/install/`name` with the sources, in a folder that is removed with the test."""
    folder = tempfile.TemporaryDirectory(prefix=f"idempotency-{name}.")
    test.addCleanup(folder.cleanup)
    tree = pathlib.Path(folder.name) / "orders"
    shutil.copytree(ROOT / "tests/install" / name, tree)
    shutil.copytree(ROOT / "tests/install/sources", tree, dirs_exist_ok=True)
    return tree

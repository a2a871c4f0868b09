"""A run of measures from its first process to its end."""

import contextlib
import os
import shutil
import signal
import sys
import tempfile

from .bench import Bench, complain


@contextlib.contextmanager
def run_of(options, binaries, prefix, parent=None):
    """A Bench in a folder of its own below `parent`. Its processes and its folder end with the
    block, also on Ctrl-C and SIGTERM, which end the program."""
    # A shell's background job would ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    folder = tempfile.mkdtemp(prefix=prefix, dir=parent)
    # The server's own user must have access to its folder.
    os.chmod(folder, 0o755)
    bench = Bench(options, folder, binaries)
    try:
        yield bench
    except KeyboardInterrupt:
        complain("\nstopped")
        sys.exit(130)
    finally:
        bench.close()
        shutil.rmtree(folder, ignore_errors=True)

"""The end of a command of the mutation tools."""

import signal
import sys


def _end(number, _):
    raise SystemExit(128 + number)


def exit_status(work, failures):
    """The result of work(); 2 after one of `failures`, which is printed; 130 after SIGINT.
    SIGTERM and SIGHUP leave every `with` of `work`."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)
    try:
        return work()
    except failures as why:
        print(f"error: {why}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130

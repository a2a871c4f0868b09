#!/usr/bin/env python3
"""The processes that a program starts end with it, in every case: tests/support/subreaper.h in
Python.

As a program it runs a command this way: subreaper.py COMMAND ARGUMENT...
"""

import ctypes
import os
import pathlib
import resource
import select
import signal
import sys

# As in tests/support/subreaper.h.
VARIABLE = "IDEMPOTENCY_TEST_SUBREAPER"

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
# The program handles the signals that request these from the original process.
_FORWARDED = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1,
              signal.SIGUSR2}
_SENT_BY_THE_KERNEL = 128


def _prctl(option, value):
    if ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _end_as(status):
    if os.WIFSIGNALED(status):
        # The dump, if one is written, is the program's.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.WEXITSTATUS(status))


def _children():
    """The children of this process, started by it or adopted from the kernel."""
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text(errors="replace")
        except OSError:
            continue  # it has ended
        if int(stat.rpartition(")")[2].split()[1]) == os.getpid():
            yield int(folder.name)


def _kill_the_rest():
    while True:
        for child in _children():
            os.kill(child, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _reap(program):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid == program:
            _kill_the_rest()
            _end_as(status)


def _subreap(program, caller):
    """`caller` is readable once the original process has ended."""
    # A signal to the group of the program, as SIGKILL by timeout(1), is not for this process.
    os.setpgid(0, 0)
    wakeup, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(wakes)
    for number in (*_FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {*_FORWARDED, signal.SIGCHLD})
    _reap(program)  # those that ended before
    while True:
        readable, _, _ = select.select([caller, wakeup], [], [])
        if caller in readable:
            _kill_the_rest()
            os._exit(1)
        for number in os.read(wakeup, 256):
            if number != signal.SIGCHLD:
                os.kill(program, number)
        _reap(program)


def _wait_for(subreaper):
    while True:
        info = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        # The terminal's are for the whole group, which contains the program.
        if info.si_signo != signal.SIGCHLD and info.si_code != _SENT_BY_THE_KERNEL:
            os.kill(subreaper, info.si_signo)
        pid, status = os.waitpid(subreaper, os.WNOHANG)
        if pid == subreaper:
            _end_as(status)


def run_under_subreaper():
    """Call it first, before there are threads; returns in the process that continues."""
    if os.environ.get(VARIABLE):
        return
    sys.stdout.flush()
    sys.stderr.flush()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    # Only the original process has its write end, which is closed when that process ends.
    caller, held = os.pipe2(os.O_CLOEXEC)
    subreaper = os.fork()
    if subreaper > 0:
        os.close(caller)
        _wait_for(subreaper)

    os.close(held)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    parent = os.getpid()
    program = os.fork()
    if program > 0:
        _subreap(program, caller)

    os.close(caller)
    # Applies here: the parent has one thread, and nothing changes this process's user.
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.environ[VARIABLE] = str(parent)


def is_under_subreaper():
    return bool(os.environ.get(VARIABLE))


def main():
    if len(sys.argv) < 2:
        print("usage: subreaper.py COMMAND ARGUMENT...", file=sys.stderr)
        return 2
    run_under_subreaper()
    os.execvp(sys.argv[1], sys.argv[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())

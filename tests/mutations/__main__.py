"""Plants one bug after the other. scripts/prove-mutations.sh calls it."""

import argparse
import os
import pathlib
import sys
import time

from .exit_status import exit_status
from .mutation import BadBug, read_all
from .suite import suite_of, together
from .table import catches, report, row
from .workshop import Failed, Workshop


def parse(arguments, names):
    parser = argparse.ArgumentParser(
        prog="scripts/prove-mutations.sh",
        description="Plants one bug after the other (tests/mutations/bugs) in a scratch "
                    "copy of the product, builds it, and expects that the suites that the "
                    "bug names fail.",
        epilog="Exit status: 0 if every bug was caught, 1 if one was not, 2 for a bad argument "
               "or a product that fails without a bug.")
    parser.add_argument("--list", action="store_true", help="list the bugs, and the suites that "
                        "must catch them")
    parser.add_argument("--quick", action="store_true", help="only some of every kind")
    parser.add_argument("--report", metavar="FILE", type=pathlib.Path,
                        help="write a table of what caught each bug")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="parallel jobs of the build")
    parser.add_argument("name", nargs="*", help="only these bugs")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.name if name not in names]
    if unknown:
        parser.error(f"no such bug: {', '.join(unknown)} (see --list)")
    return options


def chosen(mutations, options):
    if options.name:
        return [mutation for mutation in mutations if mutation.name in options.name]
    return [mutation for mutation in mutations if mutation.quick or not options.quick]


def suites_of(mutation):
    return [suite_of(text) for text in mutation.suites]


def log(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def targets_of(suites):
    return sorted({target for suite in suites for target in suite.targets})


def failures_of(workshop, suite):
    """The suite's finding; empty if it passes, or reports nothing."""
    for command in suite.commands():
        _, output = workshop.test(command)
        failures = suite.failures(output)
        if failures:
            return failures
    return []


def expect_green(workshop, mutations):
    """With nothing planted, so that a failure proves something."""
    suites = together(suite for mutation in mutations for suite in suites_of(mutation))
    targets = targets_of(suites)
    log(f"building {', '.join(targets)}")
    workshop.build(targets)
    for suite in suites:
        status, output = workshop.test(next(iter(suite.commands())))
        if status != 0:
            raise Failed(f"{suite.name} is not green with nothing planted:\n{output[-4000:]}")
        log(f"green: {suite.name}")


def hunt(workshop, mutation):
    """(why it was not caught or None, each suite's output)"""
    by = []
    try:
        workshop.plant(mutation)
        suites = suites_of(mutation)
        workshop.build(targets_of(suites))
        for suite in suites:
            failures = failures_of(workshop, suite)
            if not failures:
                return f"not caught by {suite.name}", by
            by.append(catches(suite.name, failures))
    except (Failed, BadBug) as why:
        return str(why), by
    finally:
        workshop.take_out()
    return None, by


def prove(workshop, mutations, note):
    """The names of those that were not caught. `note` gets the row of each."""
    survivors = []
    for number, mutation in enumerate(mutations, 1):
        began = time.monotonic()
        why, by = hunt(workshop, mutation)
        if why is not None:
            survivors.append(mutation.name)
        note(row(mutation, by if why is None else [f"NOT CAUGHT: {why}"]))
        log(f"{number} of {len(mutations)}, {time.monotonic() - began:.0f} s: "
             f"{'caught' if why is None else 'NOT CAUGHT'}: {mutation.name}: {mutation.what}: "
             f"{why or '; '.join(by)}")
    return survivors


def run(mutations, options):
    rows = []

    def note(line):
        # At once: a run is long, and may be interrupted.
        rows.append(line)
        if options.report:
            options.report.write_text(report(rows))

    with Workshop(options.jobs) as workshop:
        log("a scratch copy with nothing planted")
        workshop.prepare()
        expect_green(workshop, mutations)
        survivors = prove(workshop, mutations, note)
    print(f"caught {len(mutations) - len(survivors)} of {len(mutations)}")
    if survivors:
        print(f"survived: {', '.join(survivors)}")
    return 1 if survivors else 0


def main():
    mutations = read_all()
    for mutation in mutations:
        suites_of(mutation)
    names = [mutation.name for mutation in mutations]
    options = parse(sys.argv[1:], names)
    if options.list:
        for mutation in chosen(mutations, options):
            print(f"{mutation.name}\n    {mutation.what}\n    {', '.join(mutation.suites)}")
        return 0
    return run(chosen(mutations, options), options)


if __name__ == "__main__":
    # Invalid files, and suites that do not exist.
    sys.exit(exit_status(main, (ValueError, OSError, Failed)))

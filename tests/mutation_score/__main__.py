"""Draws mutants of the product and tries each out. scripts/mutation_score.sh calls it."""

import argparse
import concurrent.futures
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import queue
import sys
import threading
import time

from tests.mutations.exit_status import exit_status
from tests.mutations.workshop import ROOT, Failed, Workshop

from . import equivalent, report
from .candidates import NoTool, candidates_of, product_files
from .groups import NAMES, draw, group_of
from .suites import LABELS, Build
from .trial import Bench, Outcome, Result
from .variant import Variant, links_of

_KEPT = ROOT / "build" / "mutation_score"
_JOBS = 2 * os.cpu_count()
# A header that so many sources include takes longer to build than all others.
_MAX_USERS = 40


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/mutation_score.sh",
        description="Changes one statement of the product at a time (tests/mutation_score/rules) "
                    "in a scratch copy, builds the suites that reach it, and runs them, the "
                    "quickest first, until one fails. Prints the share that was caught, and the "
                    "changes that no test detected.",
        epilog="Exit status: 0 if every requested group has the score of --at-least, 1 if one "
               "has not, 2 for a bad argument or a product that does not build unchanged.")
    parser.add_argument("--sample", metavar="N", type=int, default=60,
                        help="number of mutants that compile, spread over the groups (60)")
    parser.add_argument("--seed", metavar="S", default="1",
                        help="seed of the draw: the same mutants for the same seed and tree (1)")
    parser.add_argument("--folder", metavar="F", action="append",
                        help="only files whose name begins with F, for example "
                             "interceptors/server/reservation; may be given several times")
    parser.add_argument("--group", metavar="G", action="append", choices=NAMES,
                        help=f"only these groups: {', '.join(NAMES)}; may be given several times")
    parser.add_argument("--labels", metavar="L,L", default=",".join(LABELS),
                        help=f"only suites with one of these labels ({','.join(LABELS)})")
    parser.add_argument("--suites", metavar="REGEX", default="",
                        help="only suites whose name matches, for example "
                             "'^(batcher|session)_test$'")
    parser.add_argument("--suite-seconds", metavar="S", type=float, default=120,
                        help="skip suites that take longer (120)")
    parser.add_argument("--mutant-seconds", metavar="S", type=float, default=480,
                        help="total time limit of the suites that run for one mutant, "
                             "as measured without a mutant (480)")
    parser.add_argument("--minutes", metavar="M", type=float, default=120,
                        help="stop after M minutes and list the mutants that were not tried (120)")
    parser.add_argument("--jobs", metavar="N", type=int, default=_JOBS,
                        help="concurrent mutants: most suites wait more than they compute "
                             f"({_JOBS})")
    parser.add_argument("--at-least", metavar="PERCENT", type=float, default=0,
                        help="the required score of every group (0)")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path, help="also write the result to FILE")
    parser.add_argument("--survivors-of", metavar="FILE", type=pathlib.Path,
                        help="no draw: the survivors of the run that wrote FILE with --json")
    parser.add_argument("--list", action="store_true", help="only list the sample")
    options = parser.parse_args(arguments)
    options.labels = options.labels.split(",")
    if unknown := set(options.labels) - set(LABELS):
        parser.error(f"no such label: {', '.join(sorted(unknown))}")
    options.jobs = max(1, options.jobs)
    return options


def log(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def candidates(options):
    files = [file for file in product_files(ROOT)
             if (not options.folder or file.startswith(tuple(options.folder)))
             and (not options.group or group_of(file) in options.group)]
    return candidates_of(ROOT, files)


class Seconds:
    """The time of each suite with nothing planted. Kept between runs, by the program's
    text: a suite that was built again is measured again."""

    def __init__(self, file):
        self._file = file
        self._kept = json.loads(file.read_text()) if file.exists() else {}

    def measure(self, variants, suites, limit):
        """Runs them, one at a time in each variant, as with mutants. (seconds by target, the
        reasons
        why others are skipped)"""
        free = queue.SimpleQueue()
        for variant in variants:
            free.put(variant)

        def measured(suite):
            variant = free.get()
            try:
                return self._measured(variant, suite, limit)
            finally:
                free.put(variant)

        with concurrent.futures.ThreadPoolExecutor(len(variants)) as pool:
            known = dict(zip((suite.target for suite in suites), pool.map(measured, suites)))
        self._file.write_text(json.dumps(self._kept))
        seconds = {target: known[target] for target in known
                   if not isinstance(known[target], str)}
        return seconds, {target: known[target] for target in known if target not in seconds}

    def _measured(self, variant, suite, limit):
        program = (variant.build_folder / "bin" / suite.target).read_bytes()
        key = hashlib.sha256(program + repr((suite.arguments, limit)).encode()).hexdigest()
        if key not in self._kept:
            self._kept[key] = self._run(variant, suite, limit)
            log(f"{suite.target}: {self._kept[key]}")
        return self._kept[key]

    @staticmethod
    def _run(variant, suite, limit):
        # Twice if it fails: the machine may have been busy.
        for _ in range(2):
            began = time.monotonic()
            status, output = variant.test(suite.command(), limit)
            if status is None:
                return f"takes longer than {limit:.0f} s"
            if status == 0:
                return round(time.monotonic() - began, 2)
        return f"fails with nothing planted: {output.splitlines()[-1:]}"


class Run:
    """The workshop, and the mutants that are tried out at a time."""

    def __init__(self, options):
        self._options = options
        self._ends_at = time.monotonic() + options.minutes * 60
        self._stopping = threading.Event()
        self._running = []
        self._argued = equivalent.read()
        # All so far: also those that did not compile.
        self.results = []

    def out_of_time(self):
        return self._stopping.is_set() or time.monotonic() >= self._ends_at

    def go(self, places):
        with contextlib.ExitStack() as stack:
            _KEPT.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((_KEPT / "lock").open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as why:
                raise Failed(f"another run has {_KEPT}") from why
            workshop = stack.enter_context(Workshop(os.cpu_count(), "shared", _KEPT))
            self._running.append(workshop)
            workshop.end_at(self._ends_at)
            try:
                self._in_workshop(workshop, places, stack)
            except BaseException:
                self.stop()
                raise

    def stop(self):
        self._stopping.set()
        for each in self._running:
            each.stop()

    def _in_workshop(self, workshop, places, stack):
        log(f"a scratch copy with nothing planted, in {_KEPT}")
        workshop.prepare()
        build = Build(workshop, self._options.labels, self._options.suites)
        suites = self._build_suites(workshop, build, places)
        links = links_of(workshop)
        variants = []
        for _ in range(self._options.jobs):
            variant = stack.enter_context(Variant(workshop, build, links))
            variant.end_at(self._ends_at)
            variants.append(variant)
        self._running += variants
        seconds = self._expect_green(variants, suites)
        benches = queue.SimpleQueue()
        for variant in variants:
            bench = Bench(variant, build, seconds, self._options.mutant_seconds)
            bench.out_of_time_is(self.out_of_time)
            benches.put(bench)
        self._all(places, benches, build)

    @staticmethod
    def _build_suites(workshop, build, places):
        files = {chain[0].file for chain in places}
        wanted = {}
        for suite in build.suites:
            wanted[suite.target] = 0.0
        reaching = {suite.target: suite for file in sorted(files)
                    for suite in build.reaching(file, wanted)}
        suites = [reaching[target] for target in sorted(
            reaching, key=lambda target: (LABELS.index(reaching[target].label), target))]
        log(f"building {len(suites)} suites")
        workshop.build([suite.target for suite in suites])
        return suites

    def _expect_green(self, variants, suites):
        seconds, out = Seconds(_KEPT / "seconds.json").measure(
            variants, suites, self._options.suite_seconds)
        for target, why in out.items():
            log(f"left out: {target}: {why}")
        return seconds

    def _all(self, places, benches, build):
        done = 0
        with concurrent.futures.ThreadPoolExecutor(self._options.jobs) as pool:
            try:
                tried = [pool.submit(self._place, chain, benches, build) for chain in places]
                for future in concurrent.futures.as_completed(tried):
                    done += 1
                    for result in future.result():
                        self.results.append(result)
                        log(f"{done} of {len(places)}, {result.seconds:.0f} s: "
                             f"{result.outcome.value}: {report.place(result.mutant)}: "
                             f"{result.mutant.operator}"
                             + (f": {result.ran[-1]}: {result.by}" if result.by and result.ran
                                else ""))
            except BaseException:
                self.stop()
                raise

    def _place(self, chain, benches, build):
        """The results for one place of the sample: up to the first that compiles."""
        bench = benches.get()
        results = []
        try:
            for mutant in chain:
                if self.out_of_time():
                    return [*results, Result(mutant, Outcome.UNFINISHED)]
                if mutant.file.endswith(".h") and len(build.users(mutant.file)) > _MAX_USERS:
                    continue
                if any(argued.is_of(mutant) for argued in self._argued):
                    return [*results, Result(mutant, Outcome.ARGUED)]
                results.append(bench.try_out(mutant))
                if results[-1].outcome != Outcome.NOT_COMPILED:
                    break
            return results
        finally:
            benches.put(bench)


def show(results, options, count):
    print(report.table(results))
    if lines := report.survivors(results):
        print(f"\nsurvivors:\n{lines}")
    if options.json:
        settings = {"sample": options.sample, "seed": options.seed, "folder": options.folder,
                    "group": options.group, "labels": options.labels, "candidates": count}
        options.json.write_text(json.dumps(report.as_json(results, settings), indent=1) + "\n")


def good_enough(results, least):
    for name in NAMES:
        percent = report.score([result for result in results
                                if group_of(result.mutant.file) == name])[2]
        if percent is not None and percent < least:
            return False
    return True


def run(options):
    found = candidates(options)
    if options.survivors_of:
        places = report.survivors_among(found, json.loads(options.survivors_of.read_text()))
        log(f"{len(places)} mutants that survived")
    else:
        places = draw(found, options.sample, options.seed)
        log(f"{len(places)} of {len(found)} mutants, seed {options.seed}")
    if options.list:
        for chain in places:
            print(f"{report.place(chain[0])}: {chain[0].operator}\n{report.change(chain[0])}")
        return 0
    if not places:
        raise Failed("nothing to mutate there")
    run_of_all = Run(options)
    try:
        run_of_all.go(places)
    finally:
        # Also after an interrupted run.
        if run_of_all.results:
            show(run_of_all.results, options, len(found))
    return 0 if good_enough(run_of_all.results, options.at_least) else 1


def main():
    return run(parse(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(exit_status(main, (ValueError, OSError, Failed, NoTool)))

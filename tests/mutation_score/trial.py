"""One mutant, from planting to the verdict."""

import dataclasses
import enum
import re
import time

from tests.mutations.workshop import Failed

from .equivalent import code_of, optimised

_BUILD_LIMIT = 900
# A test that takes so many times as long as without the mutant, and so many seconds more,
# hangs: the machine has other work.
_HANGS_TIMES = 6
_HANGS_SECONDS = 30


class Outcome(enum.Enum):
    """The result of a mutant."""

    CAUGHT = "caught"
    SURVIVED = "survived"
    EQUIVALENT = "equivalent"
    ARGUED = "argued equivalent"
    NOT_COMPILED = "does not compile"
    UNFINISHED = "not finished in time"


@dataclasses.dataclass(frozen=True)
class Result:
    mutant: object
    outcome: Outcome
    # The suites that ran, in their order.
    ran: tuple = ()
    # The output of the last of them.
    by: str = ""
    seconds: float = 0.0


def hang_limit(seconds):
    return seconds * _HANGS_TIMES + _HANGS_SECONDS


def said(status, output):
    """The failure of a suite, in a few words."""
    if status is None:
        return "hangs"
    failed = re.findall(r"^\[  FAILED  \] ([\w/.]+)(?:, where .*)? \(\d+ ms\)$", output,
                        re.MULTILINE)
    if failed:
        return failed[0]
    seed = re.search(r"^seed \d+ broke a promise.*", output, re.MULTILINE)
    return seed[0] if seed else f"ended with status {status}"


class Bench:
    """Tries the mutants one after the other, in a variant of its own."""

    def __init__(self, variant, build, seconds, budget):
        """`seconds` is the time of each suite with nothing planted; `budget` the time that all
        suites of one mutant may take together, without one."""
        self._variant = variant
        self._build = build
        self._seconds = seconds
        self._budget = budget
        self._originals = {}
        self._optimised = {}
        self._out_of_time = lambda: False

    def out_of_time_is(self, predicate):
        self._out_of_time = predicate

    def suites_of(self, file):
        chosen, left = [], self._budget
        for suite in self._build.reaching(file, self._seconds):
            if self._seconds[suite.target] <= left:
                chosen.append(suite)
                left -= self._seconds[suite.target]
        return chosen

    def try_out(self, mutant):
        began = time.monotonic()
        try:
            result = self._try_out(mutant)
        finally:
            self._variant.take_out()
        # A suite that was ended when the time was over failed because of that.
        if self._out_of_time():
            result = Result(mutant, Outcome.UNFINISHED)
        return dataclasses.replace(result, seconds=time.monotonic() - began)

    def _try_out(self, mutant):
        made = self._build.object_of(mutant.file)
        before = self._original_code(made)
        text = (self._variant.tree / mutant.file).read_text()
        self._variant.replace(mutant.file, mutant.within(text))
        if made is not None:
            if not self._builds([made]):
                return Result(mutant, Outcome.NOT_COMPILED)
            if before is not None and before == self._code(made):
                return Result(mutant, Outcome.EQUIVALENT, by="the same object code")
        ran, compared = [], made is None
        for suite in self.suites_of(mutant.file):
            # Before the slow suites, and after those that are quicker than a compiler.
            if not compared and suite.label != "unit":
                compared = True
                if self._same_optimised(mutant, text):
                    return Result(mutant, Outcome.EQUIVALENT, tuple(ran),
                                  "the same optimised code")
            if not self._builds([suite.target]):
                return Result(mutant, Outcome.NOT_COMPILED, tuple(ran))
            ran.append(suite.target)
            by = self._failure(suite)
            if by is not None:
                return Result(mutant, Outcome.CAUGHT, tuple(ran), by)
        if not compared and self._same_optimised(mutant, text):
            return Result(mutant, Outcome.EQUIVALENT, tuple(ran), "the same optimised code")
        return Result(mutant, Outcome.SURVIVED, tuple(ran))

    def _failure(self, suite):
        """Its failure, seen twice; None if it does not fail. A single one is the machine's
        load, or chance."""
        limit = hang_limit(self._seconds[suite.target])
        status, output = self._variant.test(suite.command(), limit)
        if status == 0:
            return None
        by = said(status, output)
        if status is None:
            return by
        if re.fullmatch(r"[\w/]+\.[\w/]+", by):
            alone = [*suite.command(), f"--gtest_filter={by}"]
            if self._variant.test(alone, limit)[0] != 0:
                return by
        # Other tests may always fail, behind one that fails only now and then.
        status, output = self._variant.test(suite.command(), limit)
        return None if status == 0 else said(status, output)

    def _builds(self, targets):
        try:
            self._variant.build(targets)
        except Failed:
            return False
        return True

    def _code(self, made):
        return code_of(self._variant, self._variant.object_path(made))

    def _original_code(self, made):
        if made is not None and made not in self._originals:
            self._originals[made] = self._code(made) if self._builds([made]) else None
        return self._originals.get(made)

    def _same_optimised(self, mutant, text):
        mutated = optimised(self._variant, mutant.file)
        if mutant.file not in self._optimised:
            self._variant.replace(mutant.file, text)
            self._optimised[mutant.file] = optimised(self._variant, mutant.file)
            self._variant.replace(mutant.file, mutant.within(text))
        return mutated is not None and mutated == self._optimised[mutant.file]

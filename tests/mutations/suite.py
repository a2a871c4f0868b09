"""The suites that must catch a planted bug, and the results in their output."""

import dataclasses
import pathlib
import re

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# So many seeds at a time, until one breaks a promise, up to the maximum.
SEEDS_AT_A_TIME = 100
MAX_SEEDS = 1000
_PARAMETERS_NAMED = 4


class UnknownSuite(ValueError):
    """A patch names a suite that does not exist."""


def _in_brackets(parameters):
    if not parameters:
        return ""
    if len(parameters) > _PARAMETERS_NAMED:
        return f" ({len(parameters)} times)"
    return f" ({', '.join(parameters)})"


@dataclasses.dataclass(frozen=True)
class GoogleTests:
    """Tests of one binary: all of them, or those of a filter."""

    name: str
    filter: str
    targets: tuple

    def commands(self):
        command = [self.targets[0]]
        if self.filter:
            command.append(f"--gtest_filter={self.filter}")
        yield command

    def with_all_of(self, others):
        filters = sorted({suite.filter for suite in (self, *others)})
        return dataclasses.replace(self, filter="" if "" in filters else ":".join(filters))

    @staticmethod
    def failures(output):
        """The tests that reported a failure, each with its parameters. Nothing for a
        binary that only crashed or hung: that is no proof."""
        found = {}
        for suite, test in re.findall(
                r"^\[  FAILED  \] ([\w/]+)\.([\w/]+)(?:, where .*)? \(\d+ ms\)$", output,
                re.MULTILINE):
            test, _, parameter = test.partition("/")
            words = suite.split("/")
            # Prefix/Suite.Test/parameter, and Suite/type.Test.
            if not parameter and len(words) > 1:
                parameter = words.pop()
            parameters = found.setdefault(f"{words[-1]}.{test}", [])
            if parameter:
                parameters.append(parameter)
        return [name + _in_brackets(parameters) for name, parameters in found.items()]


@dataclasses.dataclass(frozen=True)
class Seeds:
    """The simulation."""

    name: str = "simulation"
    targets: tuple = ("simulation",)

    @staticmethod
    def commands():
        for first in range(1, MAX_SEEDS, SEEDS_AT_A_TIME):
            yield ["simulation", f"--first={first}", f"--seeds={SEEDS_AT_A_TIME}"]

    def with_all_of(self, _):
        return self

    @staticmethod
    def failures(output):
        """The number of seeds that broke a promise, and the first promise. Nothing where
        they only crashed, or did not take the same path twice."""
        broken = re.findall(r"^seed (\d+) broke a promise at [\d.]+ s: (.*?)(?: \(record .*\))?$",
                            output, re.MULTILINE)
        count = re.search(r"^(\d+) of (\d+) seeds failed", output, re.MULTILINE)
        if not broken or count is None:
            return []
        return [f"{count[1]} of {count[2]} seeds, the first {broken[0][0]}: {broken[0][1]}"]


def _anti_pattern(number):
    files = sorted(_ROOT.glob(f"tests/antipatterns/{number}_*_test.cc"))
    if not files:
        raise UnknownSuite(f"there is no test of anti-pattern {number}")
    classes = re.findall(r"^class (\w+) : public AntiPattern\b", files[0].read_text(),
                         re.MULTILINE)
    return GoogleTests(f"antipatterns {number}", ":".join(f"*/{name}.*" for name in classes),
                       ("antipatterns_test", "idempotencyd"))


def suite_of(text):
    """`simulation`, `antipatterns NN`, or a test's target, with a filter or without."""
    name, _, rest = text.partition(" ")
    if text == "simulation":
        return Seeds()
    if name == "antipatterns":
        return _anti_pattern(rest)
    if re.fullmatch(r"\w+_test", name):
        return GoogleTests(name, rest, (name,))
    raise UnknownSuite(f"no suite: {text}")


def together(suites):
    """For each name one suite that runs all that these run under it."""
    named = {}
    for suite in suites:
        named.setdefault(suite.name, []).append(suite)
    return [first.with_all_of(others) for first, *others in named.values()]

"""The suites that reach a file, and their order: read from CMake's build, except for the
few lines of the table below."""

import dataclasses
import json
import pathlib
import re

from .candidates import PRODUCT

# In this order; others do not run: `chaos` has faults by the clock, scripts are not linked.
LABELS = ("unit", "conformance", "simulation", "integration", "antipattern")
# The tests without GoogleTest: the test's name in ctest, its program, and its arguments here.
PROGRAMS = {"simulation_test": ("simulation", ("--seeds=300",))}
# They have a label, and do not test the product's behaviour.
LEFT_OUT = {"simulation_thread_locals_test", "simulation_repeats_test"}


@dataclasses.dataclass(frozen=True)
class Suite:
    """One program.

    target       its name, and that of its file in bin/
    label        the first of LABELS that it has
    arguments    its command line
    sources      the files of its own, not those of a library
    reached      every file of the product that is linked with it, or with a program that it
                 starts
    """

    target: str
    label: str
    arguments: tuple
    sources: frozenset
    reached: frozenset

    def command(self):
        return [self.target, *self.arguments]


def of_ctest(description):
    """(target, label, arguments) of each test in the output of `ctest --show-only=json-v1`."""
    for test in json.loads(description)["tests"]:
        name = test["name"]
        given = {each["name"]: each["value"] for each in test.get("properties", ())}
        labels = [label for label in LABELS if label in given.get("LABELS", ())]
        if not labels or name in LEFT_OUT or "chaos" in given["LABELS"]:
            continue
        target, arguments = PROGRAMS.get(name, (name, ("--gtest_fail_fast", "--gtest_brief=1")))
        yield target, labels[0], arguments


def sources_of(inputs, target, objects):
    """(its own sources, all sources), from the output of `ninja -t inputs`. `objects` has the
    source of each object."""
    own, every = set(), set()
    for line in inputs.splitlines():
        source = objects.get(line.strip())
        if source is not None:
            every.add(source)
            if f"/CMakeFiles/{target}.dir/" in f"/{line.strip()}":
                own.add(source)
    return frozenset(own), frozenset(every)


class Includes:
    """The includes between the project's files, by their text."""

    def __init__(self, root, files):
        # By the name in an #include.
        public = {file.removeprefix("include/"): file for file in files}
        self._direct = {}
        for file in files:
            text = (root / file).read_text(errors="replace")
            named = re.findall(r'^#include "([^"]+)"', text, re.MULTILINE)
            self._direct[file] = {public.get(header, header) for header in named}
        self._all = {}

    def own_headers(self, file):
        """The included header that has its name: the header that it implements."""
        return {header for header in self._direct.get(file, ())
                if pathlib.PurePath(header).stem == pathlib.PurePath(file).stem}

    def of(self, file):
        """Everything that it includes, also indirectly."""
        if file not in self._all:
            seen, waiting = set(), [file]
            while waiting:
                for header in self._direct.get(waiting.pop(), ()):
                    if header not in seen:
                        seen.add(header)
                        waiting.append(header)
            self._all[file] = seen
        return self._all[file]


class Build:
    """The data of a configured tree: objects, suites, includes."""

    def __init__(self, workshop, labels=LABELS, named=""):
        """Only the suites with one of `labels` whose name matches `named`."""
        self._workshop = workshop
        self.root = workshop.tree
        commands = json.loads((workshop.build_folder / "compile_commands.json").read_text())
        self.objects, self.commands = {}, {}
        for entry in commands:
            source = self._name(entry["file"])
            made = re.search(r" -o (\S+)", entry["command"])[1]
            self.objects[made] = source
            self.commands[source] = (made, entry["command"], entry["directory"])
        files = [str(path.relative_to(self.root)) for folder in
                 (*PRODUCT, "tests", "migrations")
                 for path in (self.root / folder).rglob("*") if path.suffix in (".cc", ".h")]
        self._includes = Includes(self.root, files)
        self.suites = list(self._suites(labels, named))

    def _name(self, path):
        path = pathlib.Path(path)
        return str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def _suites(self, labels, named):
        _, description = self._workshop.run(
            ["ctest", "--test-dir", self._workshop.build_folder, "--show-only=json-v1"], 60)
        _, known = self._workshop.run(
            ["ninja", "-C", self._workshop.build_folder, "-t", "targets", "all"], 60)
        programs = set(re.findall(r"^bin/(\w+):", known, re.MULTILINE))
        for target, label, arguments in of_ctest(description[description.index("{"):]):
            if target not in programs or label not in labels or not re.search(named, target):
                continue
            _, inputs = self._workshop.run(
                ["ninja", "-C", self._workshop.build_folder, "-t", "inputs", target], 60)
            own, every = sources_of(inputs, target, self.objects)
            yield Suite(target, label, arguments, own, every)

    def users(self, file):
        """The sources that are compiled again with this file."""
        if file.endswith(".cc"):
            return {file}
        return {source for source in self.objects.values() if file in self._includes.of(source)}

    def object_of(self, file):
        """Its object file, or None for a header."""
        return self.commands[file][0] if file in self.commands else None

    def reaching(self, file, seconds):
        """The suites that reach the file: those beside it that include it first, then those
        that do either, then all others; of these by their labels, and of each label those that
        take the fewest seconds first. Those without a time in `seconds` are left out."""
        users = self.users(file)
        headers = {file} if file.endswith(".h") else self._includes.own_headers(file)
        # A public header has no suite beside it, its source has.
        folders = {pathlib.PurePath(name).parent for name in
                   {file} | {source for source in users
                             if not headers.isdisjoint(self._includes.own_headers(source))}}

        def rank(suite):
            beside = any(pathlib.PurePath(source).parent in folders for source in suite.sources)
            near = any(not headers.isdisjoint(self._includes.of(source))
                       for source in suite.sources)
            place = 0 if beside and near else 1 if beside or near else 2
            return (place, LABELS.index(suite.label), 0 if near else 1,
                    seconds[suite.target], suite.target)

        return sorted((suite for suite in self.suites
                       if suite.target in seconds and not users.isdisjoint(suite.reached)),
                      key=rank)

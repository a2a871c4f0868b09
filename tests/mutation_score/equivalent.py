"""Mutants that differ from the product in nothing that it does: those whose optimised object
code is the same, and those that somebody has argued."""

import dataclasses
import hashlib
import pathlib
import shlex

from .candidates import squeezed

ARGUED = pathlib.Path(__file__).resolve().parent / "equivalent.txt"
_COMPILE_LIMIT = 300


class BadArgument(ValueError):
    """The file of the argued mutants is not what it has to be."""


@dataclasses.dataclass(frozen=True)
class Argued:
    """Four lines of the file: which file, `-` and `+` the text before and after, and why. Known
    by their text, wherever it stands."""

    file: str
    original: str
    mutated: str
    why: str

    def is_of(self, mutant):
        return (self.file, self.original, self.mutated) == (
            mutant.file, squeezed(mutant.original), squeezed(mutant.mutated))


def parse(text):
    found = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if not lines:
            continue
        if len(lines) != 4 or not lines[1].startswith("- ") or not lines[2].startswith("+ ") \
                or not lines[3].strip():
            raise BadArgument("a file, its line after '- ', the mutant after '+ ', and why: "
                              + lines[0])
        found.append(Argued(lines[0].strip(), squeezed(lines[1][2:]), squeezed(lines[2][2:]),
                            lines[3].strip()))
    return found


def read():
    return parse(ARGUED.read_text())


def code_of(workshop, path):
    """A digest of an object file without what a debugger needs, or None."""
    plain = path.with_suffix(".plain")
    status, _ = workshop.run(["objcopy", "--strip-debug", "--remove-section=.comment", path,
                              plain], _COMPILE_LIMIT)
    return hashlib.sha256(plain.read_bytes()).hexdigest() if status == 0 else None


def _without_precompiled(arguments):
    """The headers that were compiled beforehand were so without optimisation."""
    if "-include-pch" not in arguments:
        return arguments
    # Both words come after an -Xclang.
    at = arguments.index("-include-pch")
    return arguments[:at - 1] + arguments[at + 3:]


def optimised(workshop, build, file):
    """The same of a source as it stands in the tree, compiled as it is released. Names of
    lines and files are not in it."""
    # Of the copy that it was read from: this one may be another.
    command, folder = (text.replace(f"{build.root}/", f"{workshop.tree}/")
                       for text in build.commands[file][1:])
    made = workshop.build_folder / "optimised.o"
    arguments = [part for part in _without_precompiled(shlex.split(command))
                 if not part.startswith(("-g", "-O"))]
    arguments[arguments.index("-o") + 1] = str(made)
    for flag in ("-MD", "-MMD"):
        if flag in arguments:
            arguments.remove(flag)
    for flag in ("-MT", "-MF"):
        if flag in arguments:
            at = arguments.index(flag)
            del arguments[at:at + 2]
    status, _ = workshop.run(
        ["env", "-C", folder, *arguments, "-O2", "-DNDEBUG", "-w"], _COMPILE_LIMIT)
    return code_of(workshop, made) if status == 0 else None

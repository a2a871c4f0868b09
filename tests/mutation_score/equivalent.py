"""Mutants that behave like the product: those whose optimised object
code is the same, and those with a written reason."""

import dataclasses
import hashlib
import pathlib

from .candidates import squeezed

ARGUED = pathlib.Path(__file__).resolve().parent / "equivalent.txt"
_COMPILE_LIMIT = 300


class BadArgument(ValueError):
    """The file of the mutants with reasons has a wrong format."""


@dataclasses.dataclass(frozen=True)
class Argued:
    """Four lines of the file: the file's name, `-` and `+` the text before and after, and the
    reason. Identified by their text, at any place in the file."""

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


def code_of(variant, path):
    """A digest of an object file without the parts for debuggers, or None."""
    plain = variant.scratch / "code.plain"
    status, _ = variant.run(["objcopy", "--strip-debug", "--remove-section=.comment", path,
                             plain], _COMPILE_LIMIT)
    return hashlib.sha256(plain.read_bytes()).hexdigest() if status == 0 else None


def _without_precompiled(arguments):
    """The precompiled headers were compiled without optimisation."""
    if "-include-pch" not in arguments:
        return arguments
    # Both words come after an -Xclang.
    at = arguments.index("-include-pch")
    return arguments[:at - 1] + arguments[at + 3:]


def optimised(variant, file):
    """The same for a source unchanged, compiled as it is released. Names of lines and
    files are not in it."""
    arguments, folder = variant.command_of(file)
    arguments = [part for part in _without_precompiled(arguments)
                 if not part.startswith(("-g", "-O"))]
    made = pathlib.Path(arguments[arguments.index("-o") + 1]).with_suffix(".optimised.o")
    made.parent.mkdir(parents=True, exist_ok=True)
    arguments[arguments.index("-o") + 1] = str(made)
    status, _ = variant.run(
        ["env", "-C", folder, *arguments, "-O2", "-DNDEBUG", "-w"], _COMPILE_LIMIT)
    return code_of(variant, made) if status == 0 else None

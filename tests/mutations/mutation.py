"""A planted bug: a patch with a head that says what it is and what is to catch it."""

import dataclasses
import pathlib
import re

PATCHES = pathlib.Path(__file__).resolve().parent / "patches"
MAX_TITLE = 76

_TITLE = re.compile(rf"[A-Z].{{0,{MAX_TITLE - 1}}}")
_FIELD = re.compile(r"([A-Z][a-z-]+): *(.*)")


class BadPatch(ValueError):
    """Its head is not what a head has to be."""


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One patch.

    what      what is taken out or done wrong, in one line
    suites    the suites that must each catch it, as its head names them
    quick     whether it is one of the few for now and then
    files     what it changes
    diff      the patch itself
    """

    name: str
    what: str
    suites: tuple
    quick: bool
    files: tuple
    diff: str


def parse(path):
    """The mutation in this file. Raises BadPatch."""
    head, separator, diff = path.read_text().partition("diff --git ")
    lines = head.splitlines()
    if not separator or not lines or not _TITLE.fullmatch(lines[0]) or lines[0].endswith("."):
        raise BadPatch(f"{path}: the first line says what is taken out, in at most {MAX_TITLE} "
                       "characters")
    fields = {"Caught-by": [], "Quick": []}
    for line in filter(None, lines[1:]):
        field = _FIELD.fullmatch(line)
        if field is None or field[1] not in fields:
            raise BadPatch(f"{path}: no line of a head: {line}")
        fields[field[1]].append(field[2].strip())
    if not fields["Caught-by"]:
        raise BadPatch(f"{path}: no Caught-by")
    files = tuple(re.findall(r"^\+\+\+ b/(\S+)$", diff, re.MULTILINE))
    return Mutation(path.stem, lines[0], tuple(fields["Caught-by"]), fields["Quick"] == ["yes"],
                    files, separator + diff)


def read_all(folder=PATCHES):
    return [parse(path) for path in sorted(folder.glob("*.patch"))]

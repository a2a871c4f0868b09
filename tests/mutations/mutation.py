"""A planted bug: a file with a head that describes it and names the suites that must catch it,
and the statements that it changes."""

import dataclasses
import pathlib
import re

BUGS = pathlib.Path(__file__).resolve().parent / "bugs"
MAX_TITLE = 76

_TITLE = re.compile(rf"[A-Z].{{0,{MAX_TITLE - 1}}}")
_FIELD = re.compile(r"([A-Z][a-z-]+): *(.*)")
# Allowed between two characters of a statement: line breaks and comments move.
_GAP = r"(?:\s|//[^\n]*\n)*"


class BadBug(ValueError):
    """The file has a wrong format, or the code has no such place."""


def _place_of(text):
    """A pattern of this code, with any line breaks."""
    return re.compile(_GAP.join(map(re.escape, re.sub(r"\s", "", text))))


@dataclasses.dataclass(frozen=True)
class Edit:
    """One place of one file.

    anchor       a line of the code: the first fitting place after it is meant; "" if there
                 is only one such place in the file
    original     the statements as they are
    replacement  the statements that replace them
    """

    file: str
    anchor: str
    original: str
    replacement: str

    def applied(self, text):
        """The file's text with the edit in it. Raises BadBug."""
        begin = 0
        if self.anchor:
            anchors = list(_place_of(self.anchor).finditer(text))
            if len(anchors) != 1:
                raise BadBug(f"{self.file} has {len(anchors)} places like {self.anchor}")
            begin = anchors[0].end()
        places = list(_place_of(self.original).finditer(text, begin))
        if not places or (len(places) > 1 and not self.anchor):
            raise BadBug(f"{self.file} has {len(places)} places like {self.original.strip()}")
        return text[:places[0].start()] + self.replacement.strip() + text[places[0].end():]


@dataclasses.dataclass(frozen=True)
class Mutation:
    """One file.

    what      the removed protection or the fault, in one line
    suites    the suites that must each catch it, as its head names them
    quick     whether it is in the quick set
    edits     its changes, in this order
    """

    name: str
    what: str
    suites: tuple
    quick: bool
    edits: tuple

    @property
    def files(self):
        return tuple(dict.fromkeys(edit.file for edit in self.edits))


def _head(path, lines):
    """The fields of the head, without its first line."""
    fields = {"Caught-by": [], "Quick": []}
    for line in lines:
        field = _FIELD.fullmatch(line)
        if field is None or field[1] not in fields:
            raise BadBug(f"{path}: no line of a head: {line}")
        fields[field[1]].append(field[2].strip())
    if not fields["Caught-by"]:
        raise BadBug(f"{path}: no Caught-by")
    return fields


def _edit(path, block):
    first, *lines = block.splitlines()
    file, _, anchor = first.partition(": ")
    minus = [line[1:] for line in lines if line.startswith("-")]
    plus = [line[1:] for line in lines if line.startswith("+")]
    if not file or not "".join(minus).strip() or len(minus) + len(plus) != len(lines):
        raise BadBug(f"{path}: an edit is FILE or FILE: ANCHOR, lines with -, lines with +")
    return Edit(file, anchor.strip(), "\n".join(minus), "\n".join(plus))


def parse(path):
    """The mutation in this file. Raises BadBug."""
    blocks = re.split(r"\n{2,}", path.read_text().strip("\n"))
    if not _TITLE.fullmatch(blocks[0]) or blocks[0].endswith("."):
        raise BadBug(f"{path}: the first line says what is taken out, in at most {MAX_TITLE} "
                     "characters")
    if len(blocks) < 3:
        raise BadBug(f"{path}: a title, a head and the edits, with an empty line between")
    fields = _head(path, blocks[1].splitlines())
    return Mutation(path.stem, blocks[0], tuple(fields["Caught-by"]), fields["Quick"] == ["yes"],
                    tuple(_edit(path, block) for block in blocks[2:]))


def read_all(folder=BUGS):
    return [parse(path) for path in sorted(folder.glob("*.txt"))]

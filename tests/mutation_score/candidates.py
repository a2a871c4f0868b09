"""Every mutant of the product that the rules produce."""

import contextlib
import dataclasses
import importlib
import io
import pathlib
import re
import tempfile

from .statements import pieces_of

RULES = pathlib.Path(__file__).resolve().parent / "rules"
PRODUCT = ("include", "core", "client", "interceptors", "postgres", "server")
_NOT_PRODUCT = {"testing", "testdata", "build"}

# The content of brackets, three deep, without a semicolon.
_BALANCED = r"(?:[^();]|\((?:[^();]|\((?:[^();]|\([^();]*\))*\))*\))*"
# One side of && or ||.
_OPERAND = r"(?:[^()&|?;,]|\(" + _BALANCED + r"\))+?"


class NoTool(RuntimeError):
    """universalmutator is not installed."""


@dataclasses.dataclass(frozen=True, order=True)
class Mutant:
    """One change: lines `first` to `last` of the file, which were `original`, become
    `mutated`."""

    file: str
    first: int
    last: int
    operator: str
    original: str
    mutated: str

    def within(self, text):
        """The file with the change in it, with as many lines as before."""
        lines = text.splitlines(keepends=True)
        if "".join(lines[self.first - 1:self.last]) != self.original:
            raise ValueError(f"{self.file}:{self.first} was changed meanwhile")
        new = self.mutated.splitlines(keepends=True)
        missing = (self.last - self.first + 1) - len(new)
        return "".join([*lines[:self.first - 1], *new, *(["\n"] * missing), *lines[self.last:]])


def product_files(root):
    """The C++ files of the product, without tests and their tools."""
    for folder in PRODUCT:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root)
            if path.suffix in (".cc", ".h") and not path.stem.endswith("_test") \
                    and _NOT_PRODUCT.isdisjoint(name.parts):
                yield str(name)


def expanded(rules):
    return rules.replace("{balanced}", _BALANCED).replace("{operand}", _OPERAND)


def operators(rules):
    """The operator of each rule, by the number of its line."""
    found, name = {}, None
    for number, line in enumerate(rules.splitlines(), 1):
        if heading := re.fullmatch(r"# == (.+)", line):
            name = heading[1]
        elif " ==>" in line and not line.startswith("#"):
            found[number] = name
    return found


def _tool():
    try:
        return importlib.import_module("universalmutator.mutator")
    except ImportError as why:
        raise NoTool("universalmutator is not installed: call scripts/mutation_score.sh") from why


@contextlib.contextmanager
def _rule_file(rules):
    # The tool's numbers of the rules are those of their lines in the file, empty ones included.
    with tempfile.NamedTemporaryFile("w", suffix=".rules") as file:
        file.write(expanded(rules))
        file.flush()
        yield file.name


def squeezed(text):
    return " ".join(text.split())


def _unlike(piece, mutated):
    """Whether two arguments changed places of which one is a literal and the other is not:
    that hardly ever compiles."""
    before, after = (re.split(r"[\s(),;]+", text) for text in (piece.text, mutated))
    changed = [word for word, now in zip(before, after) if word != now]
    literal = [bool(re.fullmatch(r"§[a-z]+§|[\d.]+|true|false|nullptr", word)) for word in changed]
    return any(literal) and not all(literal)


def _of_pieces(tool, pieces, rules):
    """(piece, operator, mutated text) of all of them."""
    named = operators(rules)
    # The tool treats these as beginnings of comments, which continue in later lines.
    plain = [piece for piece in pieces if not re.search(r"\{-|/\*", piece.text)]
    with _rule_file(rules) as file, contextlib.redirect_stdout(io.StringIO()):
        made = tool.mutants_regexp([piece.text for piece in plain], ruleFiles=[file],
                                   ignorePatterns=[])
    for number, mutated, (_, place), _ in made:
        piece = plain[number - 1]
        operator = named[int(place.rpartition(":")[2])]
        if operator == "swapped arguments" and _unlike(piece, mutated):
            continue
        if squeezed(mutated) != squeezed(piece.text):
            yield piece, operator, piece.restored(mutated)


def candidates_of(root, files):
    """All mutants of these files, in a fixed order, none twice."""
    tool = _tool()
    found = {}
    for file in files:
        text = (root / file).read_text()
        lines = text.splitlines(keepends=True)
        pieces = pieces_of(text)
        for sql, name in ((False, "cpp.rules"), (True, "sql.rules")):
            chosen = [piece for piece in pieces if piece.sql == sql]
            for piece, operator, mutated in _of_pieces(tool, chosen, (RULES / name).read_text()):
                mutant = Mutant(file, piece.first, piece.last, operator,
                                "".join(lines[piece.first - 1:piece.last]), mutated)
                found.setdefault((file, piece.first, squeezed(mutated)), mutant)
    return sorted(found.values())

"""A C++ file as the pieces that are mutated: statements, and lines of SQL.

A statement on several lines is one piece. Comments are not part of it, and
literals are words without digits or operators, so that a rule can be a simple expression.
"""

import dataclasses
import re

# The maximum number of lines. A longer one is a table or a text, not a statement.
_MAX_LINES = 10
_RAW = re.compile(r'R"([^()\\ ]{0,16})\(')
_SQL = re.compile(r"\b(?:AND|OR|WHERE|SELECT|UPDATE|INSERT|DELETE|LIMIT|CONFLICT|FOR UPDATE|"
                  r"ORDER BY|CASE|WHEN|JOIN|SET)\b")
_ENDS = ("{", "}", ";", ":")


@dataclasses.dataclass(frozen=True)
class Piece:
    """The code on the lines first to last (from 1 on).

    sql        whether it is one line of an SQL text
    text       the code, with the words for literals, and with a new line at its end
    literals   the literal of each of the words
    """

    first: int
    last: int
    sql: bool
    text: str
    literals: dict

    def restored(self, mutated):
        """A mutated text, with the literals."""
        return re.sub(r"§[a-z]+§", lambda found: self.literals[found[0]], mutated)


def _word(number):
    letters = ""
    while True:
        letters = chr(ord("a") + number % 26) + letters
        number //= 26
        if number == 0:
            return f"§{letters}§"
        number -= 1


def _literal_end(text, begin):
    quote = text[begin]
    at = begin + 1
    while at < len(text) and text[at] != quote and text[at] != "\n":
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _masked(text):
    """(the text without comments and with words for literals, the literals, the
    numbers of the lines that a raw string covers)"""
    out, literals, raw = [], {}, set()
    at = 0
    while at < len(text):
        rest = text[at:at + 20]
        if rest.startswith("//"):
            at = (text.find("\n", at) + len(text) + 1) % (len(text) + 1)
        elif rest.startswith("/*"):
            end = text.index("*/", at) + 2
            out.append("\n" * text.count("\n", at, end))
            at = end
        elif found := _RAW.match(rest):
            closing = f'){found[1]}"'
            end = text.index(closing, at) + len(closing)
            first = text.count("\n", 0, at) + 1
            lines = text.count("\n", at, end)
            raw.update(range(first, first + lines + 1))
            out.append('""' + "\n" * lines)
            at = end
        elif rest[0] == '"' or (rest[0] == "'" and not (at and text[at - 1].isalnum())):
            end = _literal_end(text, at)
            word = _word(len(literals))
            literals[word] = text[at:end]
            out.append(word)
            at = end
        else:
            out.append(rest[0])
            at += 1
    return "".join(out), literals, raw


def _statements(text):
    """The pieces of code."""
    masked, literals, raw = _masked(text)
    first, lines = None, []
    preprocessor = False
    for number, line in enumerate(masked.splitlines(), 1):
        code = line.rstrip()
        if preprocessor or code.lstrip().startswith("#"):
            preprocessor = code.endswith("\\")
            continue
        if not lines and not code:
            continue
        if first is None:
            first = number
        lines.append(code)
        if not code.endswith(_ENDS):
            continue
        covered = range(first, number + 1)
        if len(covered) <= _MAX_LINES and raw.isdisjoint(covered):
            yield Piece(first, number, False, "\n".join(filter(None, lines)) + "\n", literals)
        first, lines = None, []


def _sql_lines(text):
    _, _, raw = _masked(text)
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("--" if number in raw else ("//", "#")):
            continue
        sql = re.search(".*" if number in raw else '".*"', line)
        if sql and _SQL.search(sql[0]):
            yield Piece(number, number, True, line + "\n", {})


def pieces_of(text):
    return [*_statements(text), *_sql_lines(text)]

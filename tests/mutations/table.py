"""The table of what was caught by what: printed as it grows, and kept in a page of docs/."""

import re

BEGIN = "<!-- what the gate printed: begin -->"
END = "<!-- what the gate printed: end -->"
_HEAD = ["| bug | what is done wrong | caught by |", "|---|---|---|"]
_TESTS_NAMED = 3


def _within(text):
    return text.replace("|", "\\|").replace("\n", " ")


def catches(suite, failures):
    """One suite's part of the last column."""
    named = failures[:_TESTS_NAMED]
    more = len(failures) - len(named)
    return f"{suite}: " + ", ".join(named) + (f", and {more} more" if more else "")


def row(mutation, by):
    return f"| `{mutation.name}` | {_within(mutation.what)} | {_within('; '.join(by))} |"


def rows_of(page):
    """The rows that stand in a page, by name."""
    inside = page.partition(BEGIN)[2].partition(END)[0]
    return {name: line for line in inside.splitlines()
            for name in re.findall(r"^\| `(\w+)` \|", line)}


def updated(page, rows, names):
    """The page with these rows in place of those before, None for one that is not to be there;
    of `names` alone, in that order."""
    if page.count(BEGIN) != 1 or page.count(END) != 1:
        raise ValueError(f"no place for the table: the page needs the lines {BEGIN} and {END}")
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    known = {**rows_of(page), **rows}
    lines = [BEGIN, *_HEAD, *filter(None, map(known.get, names)), END]
    return before + "\n".join(lines) + after

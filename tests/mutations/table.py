"""The table of bugs and the suites that caught them: the report of a run."""

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


def report(rows):
    return "\n".join([*_HEAD, *rows]) + "\n"

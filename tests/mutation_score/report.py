"""The results, for people and as JSON."""

from .candidates import squeezed
from .groups import NAMES, group_of
from .trial import Outcome

_COUNTED = (Outcome.CAUGHT, Outcome.SURVIVED)


def score(results):
    """(caught, total, per cent or None)"""
    counted = [result for result in results if result.outcome in _COUNTED]
    caught = sum(result.outcome == Outcome.CAUGHT for result in counted)
    return caught, len(counted), 100.0 * caught / len(counted) if counted else None


def _row(name, results):
    caught, of, percent = score(results)
    number = {outcome: sum(result.outcome == outcome for result in results)
              for outcome in Outcome}
    equivalent = number[Outcome.EQUIVALENT] + number[Outcome.ARGUED]
    shown = "-" if percent is None else f"{percent:.0f} %"
    return (f"{name:<12} {shown:>6}   {caught:>3} of {of:<3}   {equivalent:>10}   "
            f"{number[Outcome.NOT_COMPILED]:>12}   {number[Outcome.UNFINISHED]:>10}")


def table(results):
    lines = [f"{'group':<12} {'score':>6}   {'caught':<10}   {'equivalent':>10}   "
             f"{'not compiled':>12}   {'unfinished':>10}"]
    for name in NAMES:
        of_group = [result for result in results if group_of(result.mutant.file) == name]
        if of_group:
            lines.append(_row(name, of_group))
    return "\n".join([*lines, _row("all", results)])


def place(mutant):
    return f"{mutant.file}:{mutant.first}"


def change(mutant):
    return f"    - {squeezed(mutant.original)}\n    + {squeezed(mutant.mutated) or '(nothing)'}"


def survivors(results):
    lines = []
    for result in sorted(results, key=lambda result: result.mutant):
        if result.outcome == Outcome.SURVIVED:
            lines += [f"{place(result.mutant)}: {result.mutant.operator}", change(result.mutant),
                      f"    ran: {', '.join(result.ran) or 'no suite reaches it'}"]
    return "\n".join(lines)


def survivors_among(mutants, written):
    """The mutants that survived by the JSON of as_json(): identified by their text, and if that
    occurs more than once, the one nearest to the earlier place. In the form of draw()."""
    by_text = {}
    for mutant in mutants:
        key = (mutant.file, squeezed(mutant.original), squeezed(mutant.mutated))
        by_text.setdefault(key, []).append(mutant)
    found = []
    for entry in written["mutants"]:
        same = by_text.get((entry["file"], entry["original"], entry["mutated"]), ())
        if same and entry["outcome"] == Outcome.SURVIVED.value:
            found.append([min(same, key=lambda mutant: abs(mutant.first - entry["line"]))])
    return found


def as_json(results, settings):
    groups = {}
    for name in (*NAMES, "all"):
        of_group = [result for result in results
                    if name in ("all", group_of(result.mutant.file))]
        if of_group:
            caught, of, percent = score(of_group)
            groups[name] = {"caught": caught, "of": of, "percent": percent}
    return {
        "settings": settings,
        "groups": groups,
        "mutants": [{
            "file": result.mutant.file, "line": result.mutant.first,
            "operator": result.mutant.operator, "group": group_of(result.mutant.file),
            "original": squeezed(result.mutant.original),
            "mutated": squeezed(result.mutant.mutated), "outcome": result.outcome.value,
            "suites": list(result.ran), "by": result.by, "seconds": round(result.seconds, 1),
        } for result in results],
    }

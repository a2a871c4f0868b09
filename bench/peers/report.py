"""Writes a run's numbers into README.md, docs/performance.md and docs/alternatives.md and draws
their chart. Numbers that were taken beside other work are refused.

  scripts/bench.sh --peers --json=peers.json
  python3 -m bench.peers.report peers.json
"""

import argparse
import json
import pathlib
import statistics
import sys

from bench.comparison import report as comparison
from bench.comparison.machine import busy_note, is_busy
from bench.comparison.report import with_block

from .chart import chart

_WRITER = "bench/peers/report.py"
_CROWDS = (1, 16, 64)
_LOADS = {"bare": "without a key", "first": "first calls", "replay": "replays of distinct keys",
          "hot": "replays of one key"}
# Whose numbers the beginning of docs/performance.md states in words.
_OURS = "guarded"


def caption(run):
    """The run in a line."""
    machine = run["machine"]
    return comparison.caption(run) + busy_note(machine["load_average_before"],
                                               machine["processors"])


def refusal(run):
    """Why the run's numbers are not fit for the pages, or None."""
    machine = run["machine"]
    load_average, processors = machine["load_average_before"], machine["processors"]
    if not is_busy(load_average, processors):
        return None
    return (f"the run began beside other work (load average {load_average:.1f}, {processors} "
            "processors): measure again without it, or pass --force")


def _median(one, load, field):
    return one["loads"][load][field]["median"]


def added_us(one, load, field):
    """To the call without a key, in the same round: the median of the rounds. None if there is no
    such call."""
    bare = one["rounds"].get("bare/" + load.partition("/")[2])
    if bare is None:
        return None
    return statistics.median(with_key[field] - without[field] for with_key, without
                             in zip(one["rounds"][load], bare))


def per_core(one, load):
    """Calls that one core's time is enough for, of all servers together."""
    return 1e6 / max(_median(one, load, "cpu_us"), 1e-9)


def _ms(microseconds):
    return f"{microseconds / 1000:.2f}"


def _latency(one, load, field):
    added = added_us(one, load, field)
    return _ms(_median(one, load, field)) + (" (–)" if added is None else f" ({added / 1000:+.2f})")


def _rows(head, rows):
    lines = ["| " + " | ".join(head) + " |",
             "|---|" + "---:|" * (len(head) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def latencies(contenders, load):
    """What a call takes, and in parentheses what it adds."""
    head = [f"{_LOADS[load]}: ms (added)"] + [f"{crowd} in flight, {name}" for crowd in _CROWDS
                                             for name in ("median", "p99")]
    rows = [[one["title"]] + [_latency(one, f"{load}/{crowd}", field) for crowd in _CROWDS
                              for field in ("p50_us", "p99_us")]
            for one in contenders.values() if f"{load}/1" in one["loads"]]
    return "\n".join(_rows(head, rows))


def rates(contenders):
    """Calls a second, and of a core."""
    head = (["64 in flight: calls/s"] + list(_LOADS.values()) +
            ["a core carries: first calls", "replays"])
    rows = []
    for one in contenders.values():
        rows.append([one["title"]] + [
            f"{_median(one, f'{load}/64', 'per_second'):,.0f}" if f"{load}/64" in one["loads"]
            else "–" for load in _LOADS] + [
                f"{per_core(one, load):,.0f}" for load in ("first/64", "replay/64")])
    return "\n".join(_rows(head, rows))


def conditions(run):
    """Versions, settings, durability, and what the numbers do not compare."""
    lines = ["| | versions | settings | durability | not comparable |", "|---|---|---|---|---|"]
    for one in run["contenders"].values():
        versions = ", ".join(f"{name} {version}" if name != "language" else version
                             for name, version in one["versions"].items())
        lines.append(f"| {one['title']} | {versions} | {one['settings']} | {one['durability']} | "
                     f"{one['not_comparable']} |")
    lines += [f"| {title} | | | | {why}: {_cell(reason)} |"
              for field, why in (("left_out", "left out"), ("failed", "failed"))
              for title, reason in run[field].items()]
    return "\n".join(lines)


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def sentences(run):
    """What a guarded call adds, in words. Nothing if the guard was not measured."""
    one = run["contenders"].get(_OURS)
    if one is None:
        return ""
    added = [added_us(one, f"first/{crowd}", field) for crowd in _CROWDS
             for field in ("p50_us", "p99_us")]
    return (
        f"A guarded first call adds {_ms(added[0])} ms to the unguarded one (median; p99 "
        f"{_ms(added[1])} ms) when it is alone, {_ms(added[2])} ms ({_ms(added[3])} ms) with 16 in "
        f"flight and {_ms(added[4])} ms ({_ms(added[5])} ms) with 64. A core carries "
        f"{per_core(one, 'first/64'):,.0f} first calls a second, or "
        f"{per_core(one, 'replay/64'):,.0f} replays from the guard's cache: the CPU time of the guarded server, "
        "idempotencyd and Postgres together.")


def headline(run):
    """The same in a line, for the README. Nothing if the guard was not measured."""
    one = run["contenders"].get(_OURS)
    if one is None:
        return ""
    machine = run["machine"]
    note = busy_note(machine["load_average_before"], machine["processors"])
    return (
        "Measured by `scripts/bench.sh --peers`, Postgres included "
        f"({machine['processors']} x {machine['processor']}{note}): a first call takes "
        f"{_ms(added_us(one, 'first/1', 'p50_us'))} ms longer than an unguarded one (median, one at "
        f"a time), and a core carries {per_core(one, 'first/64'):,.0f} first calls or "
        f"{per_core(one, 'replay/64'):,.0f} replays a second from the guard's memory ([performance](docs/performance.md)).")


def replay_note(run):
    """Which replays the guard sends without a call to the service. Nothing if it was not measured."""
    if _OURS not in run["contenders"]:
        return ""
    return ("The guard's replays in the following tables come from its memory, where a reply stays for 10 s "
            "([replay cache](replay_cache.md)): they reach neither idempotencyd nor Postgres. A later retry, and "
            "one at another server, takes a call to idempotencyd, which is not measured here.")


def table(run):
    """For the terminal."""
    contenders = run["contenders"]
    if not contenders:
        return "nothing was measured"
    return "\n\n".join([latencies(contenders, "first"), rates(contenders), conditions(run)])


def blocks(run):
    """The text of each page's block: the beginning of docs/performance.md, docs/alternatives.md."""
    contenders = run["contenders"]
    beginning = "\n\n".join(filter(None, [
        sentences(run), latencies(contenders, "first"), rates(contenders), caption(run) + "."]))
    all_tables = list(filter(None, [latencies(contenders, "first"), replay_note(run)] +
                             [latencies(contenders, load) for load in ("replay", "hot")]))
    settings = ", ".join(f"`{name}={value}`" for name, value in run["postgres_settings"].items())
    picture = "![Calls per second and latency of each](alternatives.svg)"
    return beginning, "\n\n".join([picture] + all_tables + [
        rates(contenders), conditions(run), f"Postgres: {settings}. {caption(run)}."])


def write(run, root):
    """The pages and the chart below the project's root."""
    beginning, alternatives = blocks(run)
    for page, name, text in (("README.md", "figures", headline(run)),
                             ("docs/performance.md", "a guarded call", beginning),
                             ("docs/alternatives.md", "alternatives", alternatives)):
        path = root / page
        if text:
            path.write_text(with_block(path.read_text(), name, text, _WRITER))
    (root / "docs/alternatives.svg").write_text(chart(run["contenders"], caption(run)))


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python3 -m bench.peers.report",
                                     description=__doc__.splitlines()[0])
    parser.add_argument("json", type=pathlib.Path, help="from scripts/bench.sh --peers --json=FILE")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."),
                        help="of the project whose pages are written (.)")
    parser.add_argument("--force", action="store_true",
                        help="also numbers that were taken beside other work; the pages say so")
    options = parser.parse_args(arguments)
    run = json.loads(options.json.read_text())
    if not run["contenders"]:
        sys.exit(f"{options.json} holds no measured contender")
    if not options.force and (reason := refusal(run)):
        sys.exit(f"{options.json}: {reason}")
    write(run, options.root)
    print("wrote README.md, docs/performance.md, docs/alternatives.md and docs/alternatives.svg")


if __name__ == "__main__":
    main()

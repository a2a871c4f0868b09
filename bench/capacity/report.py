"""The plan as Markdown."""

from bench.comparison.machine import busy_note

from .figures import LARGEST_BATCH
from .model import closed_loop, limit
from .plan import (DAEMONS, LARGEST_RATE, LITTLE_SKEW, LOST_S, MUCH_SKEW, PLANNED, SHARDS,
                   UPGRADE_S, fleet_of, largest, needed, per_thousand, row)

_CROWDS = (16, 64)


def caption(figures):
    run = figures.run
    return (f"PostgreSQL {run['postgres'].split()[0]}, {figures['cores']} processors, commit "
            f"{run['commit']}, {run['at']}, {run['rounds']} counts of {run['seconds']} s" +
            busy_note(run["load_average_before"], figures["cores"]))


def table(head, rows):
    return "\n".join(["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)] +
                     ["| " + " | ".join(cells) + " |" for cells in rows])


def rounded(number):
    """Two significant digits: the model has no more."""
    if number >= 100:
        digits = len(str(int(number))) - 2
        return f"{round(number, -digits):,.0f}"
    return f"{number:.2g}"


def differences(figures):
    """In flight, the model's cycles per second, the measured ones, and the relative difference."""
    engine = figures.engines["postgres"]
    for crowd in _CROWDS:
        measured = figures[f"verify_{crowd}_per_second"]
        machine_rate = 1e6 * figures["cores"] / figures[f"verify_{crowd}_cpu_us"]
        modelled = closed_loop(engine, crowd, machine_rate)
        yield crowd, modelled, measured, modelled / measured - 1


def verification(figures):
    """One shard of the model against the service on the machine."""
    return table(["one shard, calls in flight", "model", "measured", "difference"], [
        [str(crowd), f"{modelled:,.0f}/s", f"{measured:,.0f}/s", f"{100 * off:+.0f} %"]
        for crowd, modelled, measured, off in differences(figures)])


def _bytes(number):
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.2g} {unit}"
    return f"{number:.0f} B"


def _thousand(figures):
    rows = []
    for name, number in per_thousand(figures).items():
        rows.append([name, _bytes(number) if "bytes" in name else rounded(number)])
    return table(["1,000 calls a second, a tenth of them repeats", "of everything"], rows)


def _shards(rows):
    return table(
        ["shards", "placed by key", f"by tenant, skew {LITTLE_SKEW}",
         f"by tenant, skew {MUCH_SKEW}",
         f"one store away {LOST_S:.0f} s: late calls", "until drained",
         "upgrade: p99"],
        [[str(one.shards), rounded(one.by_key) + "/s", rounded(one.by_tenant) + "/s",
          rounded(one.hot_tenants) + "/s", f"{100 * one.late_share:.2g} %",
          f"{one.drained_s:.0f} s", f"{1000 * one.upgrade_p99_s:.0f} ms"] for one in rows])


def _engine_rows(figures):
    postgres = fleet_of(figures, 1)
    sqlite = figures.engines["sqlite"]
    rows = [
        ["SQLite", f"{rounded(sqlite.rate(LARGEST_BATCH))} cycles/s, the store alone",
         "one writer, one machine, one daemon"],
        ["one Postgres", f"{rounded(limit(postgres, DAEMONS))} cycles/s with {DAEMONS} daemons",
         _bottleneck(figures, postgres)]]
    if figures.get("redis_per_second") is not None:
        rows.append(["one Redis, `appendfsync always`",
                     f"{rounded(figures['redis_per_second'])} cycles/s with 64 in flight; its one "
                     f"thread is enough for {rounded(1e6 / figures['redis_cpu_us'])}",
                     f"memory: {rounded(figures['redis_row_bytes'])} bytes for a record"])
    else:
        rows.append(["one Redis", "not measured", "one thread for commands, and memory"])
    rows += [
        ["Redis Cluster", "not measured; records are spread by key over its servers",
         "the server with the hottest slots"],
        ["distributed Postgres", "not in this model; see [Distributed Postgres](#distributed-postgres)",
         "commits over a network, which this model does not have"]]
    return table(["store", "stops at", "because of"], rows)


def _bottleneck(figures, fleet):
    limits = {"its commits": fleet.engine.rate(LARGEST_BATCH),
              "its processors": fleet.store_rate,
              "its daemons' processors": fleet.daemons * fleet.daemon_rate}
    return min(limits, key=limits.get) + f", on {figures['cores']} processors each"


def _sources(figures):
    return "\n".join(["| figure | value | unit | made by |", "|---|---:|---|---|"] + [
        f"| `{name}` | {_value(figure['value'])} | {figure['unit']} | `{figure['command']}` |"
        for name, figure in figures.rows()])


def _value(value):
    if isinstance(value, list):
        return ", ".join(f"{size}: {us:g}" for size, us in value)
    return value


def page(figures):
    """The text of the block, and the rows of its chart."""
    rows = [row(figures, shards) for shards in SHARDS]
    shards = needed(figures, LARGEST_RATE)
    worst = largest(figures, shards)
    error = max(abs(off) for *_, off in differences(figures))
    text = "\n\n".join([
        _thousand(figures), _shards(rows),
        f"{LARGEST_RATE:,} calls a second, placed by key, take {shards:,} shards of this size, "
        f"each with {DAEMONS} daemons, at {100 * PLANNED:.0f} % of what they can do. The model differs "
        f"from what was measured by up to {100 * error:.0f} % (below), which the other half covers. With one store "
        f"away for {LOST_S:.0f} s in the middle of an upgrade of all daemons ({UPGRADE_S:.0f} s each, one "
        f"after the other): {100 * worst.late / worst.offered:.2g} % of the calls of 90 s are "
        f"late, and no queue is left after {worst.queued_until_s:.0f} s.",
        "![What N shards carry](scaling.svg)", _engine_rows(figures),
        "The model against the service, on the machine of the figures:", verification(figures),
        _sources(figures), caption(figures) + "."])
    return text, rows

"""Every measure, with its floor."""

import statistics
import time

from .counts import SystemCalls
from .filling import Filling
from .rounds import Outcome, Target

MEBIBYTE = 1024 * 1024
# The bytes that idempotencyd may hold for operations (its --queue_mib), and its bound for other
# memory.
BUDGET_MIB = 256
REST_MIB = 128

TARGETS = {target.key: target for target in [
    Target("cycles_vs_two_commit_floor",
           "64 cycles in flight / pgbench's two commits, 64 clients", 2.5, True),
    Target("lone_latency_vs_floor",
           "a lone cycle's median / pgbench's with one client + two echoes", 1.15, False),
    Target("replay_vs_echo", "replays of distinct keys / unary echo, 64 in flight", 0.8, True),
    Target("guarded_first_vs_floor",
           "guarded first calls, 64 in flight / pgbench's two commits", 1.2, True),
    Target("guarded_replay_vs_echo",
           "guarded replays without the cache / the server unguarded", 0.4, True),
    Target("lone_first_switches", "voluntary context switches of a lone guarded first call: server, "
           "idempotencyd and Postgres", 16, False, ""),
    Target("embedded_first_switches", "the same with the service embedded: server and Postgres", 10,
           False, ""),
    Target("guarded_lone_vs_bare", "a lone guarded first call's median / the server unguarded + "
           "pgbench's with one client", 1.3, False),
    Target("hot_replay_vs_echo",
           "guarded replays from the cache / the server unguarded", 0.75, True),
    Target("cycles_full_vs_empty", "cycles on a full table / on an empty one", 0.8, True),
    Target("cycles_full_mixed", "the same with 20 % UUIDv4 keys", 0.6, True),
    Target("wal_bytes_per_cycle", "WAL per cycle", 1000, False, "B"),
    Target("sweep_throughput", "cycles while expired records go / without", 0.9, True),
    Target("sweep_p99", "their p99 / without", 2, False),
    Target("p999_vs_p50", "p99.9 / p50 at half the rate, mixed calls, a checkpoint", 40, False),
    Target("hot_wait_ms", "from a completion to the last of 64 waiting answers", 20, False, "ms"),
    Target("sealed_vs_plain", "cycles with replies of 1 KiB, sealed / not sealed", 0.9, True),
    Target("sealed_cpu", "their CPU time: client, idempotencyd and Postgres", 1.1, False),
    Target("reseal_throughput", "records with replies of 1 KiB that `keyring reseal` reseals in a "
           "second", 1000, True, "/s"),
    Target("reseal_wal_bytes", "WAL for each of them, after a checkpoint", 4096, False, "B"),
    Target("fairness", "a namespace's throughput beside one that offers ten times as much / "
           "without it", 0.9, True),
    Target("rss_mib", "idempotencyd's memory, 256 in flight, 1 KiB replies", 256, False, "MiB"),
    Target("rss_large_mib", "the same with 8 MiB replies", BUDGET_MIB + REST_MIB, False, "MiB"),
    Target("sqlite_vs_postgres", "cycles on SQLite / on Postgres", 1.0, True),
]}


def _rate(report):
    return f"{report['per_second']:,.0f}/s"


def _cpu(report):
    used = report.get("cpu_us", {})
    return "cpu/op us: " + ", ".join(f"{kind} {us:.0f}" for kind, us in used.items())


def _outcome(key, values, raw):
    return Outcome(TARGETS[key], values, raw)


def _paired(bench, key, floor, measure):
    """Floor and measure in turns; the ratio of each pair.

    `floor` returns a rate, `measure` a report of the load generator.
    """
    values, raw = [], []
    for number in range(bench.options.rounds):
        below = floor()
        report = measure()
        values.append(report["per_second"] / below)
        raw.append({"floor_per_second": below, "measure": report})
        bench.log(f"round {number + 1}: floor {below:,.0f}/s, {_rate(report)}: "
                  f"{values[-1]:.2f}; {_cpu(report)}")
    return [_outcome(key, values, raw)]


def cycles_vs_two_commit_floor(bench):
    floor = bench.floor()
    daemon = bench.daemon()
    outcome = _paired(bench, "cycles_vs_two_commit_floor",
                      lambda: floor.cycles_per_second(bench.options.seconds),
                      lambda: bench.load("cycles", daemon.address))
    bench.stop(daemon)
    return outcome


def lone_latency_vs_floor(bench):
    floor = bench.floor()
    daemon = bench.daemon()
    charges = bench.charges()
    values, raw = [], []
    for number in range(bench.options.rounds):
        commits = floor.lone_median_us(bench.options.seconds)
        echo = bench.load("charges", charges.bare, in_flight=1)
        cycle = bench.load("cycles", daemon.address, in_flight=1)
        values.append(cycle["p50_us"] / (commits + 2 * echo["p50_us"]))
        raw.append({"pgbench_us": commits, "echo": echo, "measure": cycle})
        bench.log(f"round {number + 1}: pgbench {commits:.0f} us + 2 x {echo['p50_us']:.0f} us, "
                  f"cycle {cycle['p50_us']:.0f} us: {values[-1]:.2f}")
    bench.stop(charges, daemon)
    return [_outcome("lone_latency_vs_floor", values, raw)]


def completed_keys(bench, load, count, **flags):
    """Completes `count` keys; returns the flags that name them."""
    keys = {"seed": int(time.time() * 1000) % 10**9 + 1,
            "first_key_ms": int(time.time() * 1000) - 60_000, **flags}
    report = load(pieces=count, duration="120s", warmup="0s", **keys)
    if report["ended"] != count:
        raise RuntimeError(f"of {count} keys {report['ended']} were completed")
    bench.log(f"{count:,} keys completed")
    return {**keys, "keys": count}


def replay_vs_echo(bench):
    daemon = bench.daemon()
    charges = bench.charges()
    keys = completed_keys(bench, lambda **flags: bench.load("cycles", daemon.address, **flags),
                           bench.options.replayed_keys)
    outcome = _paired(bench, "replay_vs_echo",
                      lambda: bench.load("charges", charges.bare)["per_second"],
                      lambda: bench.load("replays", daemon.address, **keys))
    bench.stop(charges, daemon)
    return outcome


def guarded_first_vs_floor(bench):
    floor = bench.floor()
    daemon = bench.daemon()
    charges = bench.charges(daemon)
    outcome = _paired(bench, "guarded_first_vs_floor",
                      lambda: floor.cycles_per_second(bench.options.seconds),
                      lambda: bench.load("charges", charges.guarded, key="fresh"))
    bench.stop(charges, daemon)
    return outcome


# With so many calls in flight.
_CROWDS = (1, 16, 64)


def _first_call_switches(bench, key, charges):
    """Of the servers and of Postgres, per call, at several numbers of calls in flight."""
    raw = []
    for crowd in _CROWDS:
        report = bench.load("charges", charges.guarded, key="fresh", in_flight=crowd)
        switches = {kind: number for kind, number in report["switches"].items() if kind != "load"}
        bench.log(f"{crowd} in flight: {_rate(report)}, switches per call: " +
                  ", ".join(f"{kind} {number:.1f}" for kind, number in switches.items()))
        raw.append({"in_flight": crowd, "sum": sum(switches.values()), "measure": report})
        if SystemCalls.available():
            traced = bench.load("charges", charges.guarded, count_calls=True, key="fresh",
                                in_flight=crowd)["system_calls"]
            bench.log("  system calls per call: " +
                      ", ".join(f"{kind} {number:.1f}" for kind, number in traced.items()))
            raw[-1]["system_calls"] = traced
    return [_outcome(key, [raw[0]["sum"]], raw)]


def lone_first_switches(bench):
    daemon = bench.daemon()
    charges = bench.charges(daemon)
    outcome = _first_call_switches(bench, "lone_first_switches", charges)
    bench.stop(charges, daemon)
    return outcome


def embedded_first_switches(bench):
    database, store = bench.migrated_database()
    charges = bench.charges(embedded_store=store)
    outcome = _first_call_switches(bench, "embedded_first_switches", charges)
    bench.stop(charges)
    bench.cluster.drop_database(database)
    return outcome


def guarded_lone_vs_bare(bench):
    floor = bench.floor()
    daemon = bench.daemon()
    charges = bench.charges(daemon)
    values, raw = [], []
    for number in range(bench.options.rounds):
        commits = floor.lone_median_us(bench.options.seconds)
        bare = bench.load("charges", charges.bare, in_flight=1)
        guarded = bench.load("charges", charges.guarded, key="fresh", in_flight=1)
        values.append(guarded["p50_us"] / (bare["p50_us"] + commits))
        raw.append({"pgbench_us": commits, "bare": bare, "measure": guarded})
        bench.log(f"round {number + 1}: unguarded {bare['p50_us']:.0f} us + pgbench {commits:.0f} "
                  f"us, guarded {guarded['p50_us']:.0f} us: {values[-1]:.2f}")
    bench.stop(charges, daemon)
    return [_outcome("guarded_lone_vs_bare", values, raw)]


def _guarded_replays(bench, key, count, **flags):
    daemon = bench.daemon()
    charges = bench.charges(daemon, **flags)
    keys = completed_keys(
        bench, lambda **flags: bench.load("charges", charges.guarded, key="fresh", **flags), count)
    outcome = _paired(bench, key,
                      lambda: bench.load("charges", charges.bare)["per_second"],
                      lambda: bench.load("charges", charges.guarded, key="replayed", **keys))
    bench.stop(charges, daemon)
    return outcome


def guarded_replay_vs_echo(bench):
    return _guarded_replays(bench, "guarded_replay_vs_echo", bench.options.replayed_keys,
                            replay_cache_bytes=0)


# So few that all of them stay in the cache. Each is requested again when its 10 s are over, as
# in real use.
def hot_replay_vs_echo(bench):
    return _guarded_replays(bench, "hot_replay_vs_echo", 1000)


def _in_turns(bench, first, second, still=lambda: True, **flags):
    """Cycles on two daemons in turns, the other one stopped meanwhile.

    A round for which `still` is false afterwards does not count.
    """
    raw = []
    second.process.pause()
    for number in range(bench.options.rounds):
        below = bench.load("cycles", first.address, **flags)
        first.process.pause()
        second.process.resume()
        report = bench.load("cycles", second.address, **flags)
        held = still()
        second.process.pause()
        first.process.resume()
        if not held:
            break
        raw.append({"floor": below, "measure": report})
        bench.log(f"round {number + 1}: {_rate(below)}, {_rate(report)}: "
                  f"{report['per_second'] / below['per_second']:.2f}; p99 {below['p99_us']:.0f} "
                  f"us, {report['p99_us']:.0f} us")
    second.process.resume()
    return raw


def _ratios(raw, field):
    return [pair["measure"][field] / pair["floor"][field] for pair in raw]


def _full_table(bench):
    """A daemon over a full table; the same rows serve both measures."""
    daemon = bench.daemon()
    bench.load("cycles", daemon.address, pieces=200, warmup="0s", hashed_share=0.5)
    filling = Filling(bench.cluster, daemon.database, bench.log)
    filling.check_ids()
    filling.add(bench.options.rows)
    filling.vacuum()
    return daemon, filling


def cycles_full(bench):
    empty = bench.daemon()
    full, filling = _full_table(bench)
    outcomes = []
    if bench.wants("cycles_full_vs_empty"):
        raw = _in_turns(bench, empty, full)
        outcomes.append(_outcome("cycles_full_vs_empty", _ratios(raw, "per_second"), raw))
    if bench.wants("cycles_full_mixed"):
        filling.add(bench.options.rows // 4, hashed=True)
        filling.vacuum()
        raw = _in_turns(bench, empty, full, hashed_share=0.2)
        outcomes.append(_outcome("cycles_full_mixed", _ratios(raw, "per_second"), raw))
    bench.stop(empty, full)
    bench.cluster.drop_database(full.database)
    return outcomes


def wal_bytes_per_cycle(bench):
    daemon = bench.daemon()
    values, raw = [], []
    bench.load("cycles", daemon.address)
    bench.cluster.sql("CHECKPOINT")
    for number in range(bench.options.rounds):
        before = bench.cluster.wal_bytes()
        report = bench.load("cycles", daemon.address)
        values.append((bench.cluster.wal_bytes() - before) / report["ended"])
        raw.append(report)
        bench.log(f"round {number + 1}: {values[-1]:.0f} B in each of {report['ended']:,} cycles")
    bench.stop(daemon)
    return [_outcome("wal_bytes_per_cycle", values, raw)]


def sweep(bench):
    quiet = bench.daemon()
    # The first pass starts within this time; passes are as fast as always.
    busy = bench.daemon(flags=["--sweep_interval=1s"])
    busy.process.pause()
    day = 24 * 3600
    filling = Filling(bench.cluster, busy.database, bench.log)
    filling.add(bench.options.expired_rows, age_s=3 * day, span_s=day, retention_s=day)
    filling.vacuum()

    def removed():
        return int(bench.cluster.sql(
            "SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'records'"
            " AND schemaname = 'idempotency'", busy.database))

    busy.process.resume()
    deadline = time.monotonic() + 60
    while removed() == 0:
        if time.monotonic() > deadline:
            raise RuntimeError("nothing is swept")
        time.sleep(0.1)
    raw = _in_turns(bench, quiet, busy, lambda: removed() < bench.options.expired_rows)
    bench.log(f"{removed():,} of {bench.options.expired_rows:,} removed")
    if not raw:
        raise RuntimeError("the sweep was over within a round: give it more --expired_rows")
    bench.stop(quiet, busy)
    bench.cluster.drop_database(busy.database)
    return [_outcome("sweep_throughput", _ratios(raw, "per_second"), raw),
            _outcome("sweep_p99", _ratios(raw, "p99_us"), [])]


def sealed(bench):
    ring = bench.ctl.key_ring()
    plain = bench.daemon()
    sealing = bench.daemon(flags=[f"--keyring={ring}"])
    raw = _in_turns(bench, plain, sealing, reply_bytes=1024)
    for pair in raw:
        for report in pair.values():
            report["cpu_us_total"] = sum(report["cpu_us"].values())
        bench.log(f"not sealed {_cpu(pair['floor'])}; sealed {_cpu(pair['measure'])}")
    bench.stop(sealing, plain)
    return [_outcome("sealed_vs_plain", _ratios(raw, "per_second"), raw),
            _outcome("sealed_cpu", _ratios(raw, "cpu_us_total"), [])]


def reseal(bench):
    ring = bench.ctl.key_ring()
    daemon = bench.daemon(flags=[f"--keyring={ring}"])
    count = bench.options.replayed_keys
    completed_keys(bench, lambda **flags: bench.load("cycles", daemon.address, **flags), count,
                    reply_bytes=1024)
    rates, sizes, raw = [], [], []
    for number in range(bench.options.rounds):
        bench.ctl.add_key(ring, daemon)
        # Records that are resealed are old: each of their pages is written whole.
        bench.cluster.sql("CHECKPOINT")
        before, began = bench.cluster.wal_bytes(), time.monotonic()
        sums = bench.ctl.reseal(daemon)
        seconds, written = time.monotonic() - began, bench.cluster.wal_bytes() - before
        if int(sums["resealed"]) != count:
            raise RuntimeError(f"of {count} records {sums['resealed']} were resealed")
        rates.append(count / seconds)
        sizes.append(written / count)
        raw.append({"seconds": seconds, "wal_bytes": written, "sums": sums})
        bench.log(f"round {number + 1}: {count:,} records in {seconds:.1f} s: {rates[-1]:,.0f}/s, "
                  f"{sizes[-1]:,.0f} B of WAL for each")
    bench.stop(daemon)
    return [_outcome("reseal_throughput", rates, raw), _outcome("reseal_wal_bytes", sizes, [])]


def p999_vs_p50(bench):
    daemon = bench.daemon()
    keys = completed_keys(bench, lambda **flags: bench.load("cycles", daemon.address, **flags),
                           bench.options.replayed_keys)
    values, raw = [], []

    def checkpoint():
        time.sleep(bench.options.warmup + bench.options.seconds)
        bench.cluster.sql("CHECKPOINT")

    for number in range(bench.options.rounds):
        saturated = bench.load("mixed", daemon.address, rate=0, **keys)
        # One call in a thousand is checked, so there must be many.
        report = bench.load("mixed", daemon.address, during=checkpoint,
                            duration=f"{2 * bench.options.seconds}s",
                            rate=saturated["per_second"] / 2, **keys)
        if report["shed"] > 0:
            raise RuntimeError(f"{report['shed']} calls were shed at half the saturated rate")
        values.append(report["p999_us"] / report["p50_us"])
        raw.append({"saturated": saturated, "measure": report})
        bench.log(f"round {number + 1}: {_rate(report)} of {_rate(saturated)}: p50 "
                  f"{report['p50_us']:.0f} us, p99 {report['p99_us']:.0f} us, p99.9 "
                  f"{report['p999_us']:.0f} us: {values[-1]:.1f}")
    bench.stop(daemon)
    return [_outcome("p999_vs_p50", values, raw)]


def hot_wait_ms(bench):
    daemon = bench.daemon()
    waits = bench.load("hot_wait", daemon.address, waiters=64,
                       rounds=4 * bench.options.rounds)["waits_ms"]
    bench.log(f"{len(waits)} times: " + ", ".join(f"{wait:.1f}" for wait in waits) + " ms")
    bench.stop(daemon)
    return [_outcome("hot_wait_ms", waits, [])]


def fairness(bench):
    daemon = bench.daemon()
    names = ["alpha", "beta", "gamma"]
    saturated = bench.load("cycles", daemon.address, in_flight=256)["per_second"]
    rate = saturated / 10
    few = ",".join(f"{name}:{rate:.1f}:256" for name in names)
    values, raw = [], []
    for number in range(bench.options.rounds):
        # The same seed: calls are made at the same moments, alone and together.
        seed = number + 1
        flags = {"seed": seed, "timeout": "2s"}
        alone = bench.load("offered", daemon.address, offer=few, **flags)
        # The greedy one may well be refused, and its answers do not count. It is a process of
        # its own, as tenants are, and runs for longer than the others.
        together = {}
        greedy = bench.load(
            "offered", daemon.address, offer=f"greedy:{10 * rate:.1f}:50000",
            duration=f"{2 * bench.options.seconds + 2}s",
            during=lambda: together.update(bench.load("offered", daemon.address, offer=few,
                                                      **flags)), **flags)
        together.update(greedy)
        values.append(min(together[name]["per_second"] / alone[name]["per_second"]
                          for name in names))
        raw.append({"alone": alone, "together": together})
        bench.log(f"round {number + 1}: {statistics.fmean(alone[n]['per_second'] for n in names):,.0f}"
                  f"/s each, then {statistics.fmean(together[n]['per_second'] for n in names):,.0f}"
                  f"/s beside {_rate(together['greedy'])}: worst {values[-1]:.2f}")
    bench.stop(daemon)
    return [_outcome("fairness", values, raw)]


def rss_mib(bench):
    daemon = bench.daemon()
    keys = completed_keys(
        bench, lambda **flags: bench.load("cycles", daemon.address, **flags), 10_000,
        in_flight=256, reply_bytes=1024)
    bench.load("cycles", daemon.address, in_flight=256, reply_bytes=1024)
    bench.load("replays", daemon.address, **keys)
    peak = daemon.process.memory_mib("VmHWM")
    bench.log(f"at most {peak:.0f} MiB, {daemon.process.memory_mib('VmRSS'):.0f} MiB afterwards")
    bench.stop(daemon)
    return [_outcome("rss_mib", [peak], [])]


def rss_large_mib(bench):
    daemon = bench.daemon()
    # A little under 8 MiB: a larger reply is stored without its content.
    large = {"reply_bytes": 8 * MEBIBYTE - 4096, "timeout": "60s"}
    keys = completed_keys(
        bench, lambda **flags: bench.load("cycles", daemon.address, **flags), 32,
        in_flight=4, **large)
    # Operations over the budget are refused, and sent again after a pause.
    for command, flags in (("cycles", large), ("replays", keys)):
        report = bench.load(command, daemon.address, **{**flags, "in_flight": bench.options.large_in_flight})
        bench.log(f"{command}: {report['ended']} of 8 MiB, {report['refused']} refused for now")
    peak = daemon.process.memory_mib("VmHWM")
    bench.log(f"at most {peak:.0f} MiB, {daemon.process.memory_mib('VmRSS'):.0f} MiB afterwards")
    bench.stop(daemon)
    bench.cluster.drop_database(daemon.database)
    return [_outcome("rss_large_mib", [peak], [])]


def sqlite_vs_postgres(bench):
    postgres = bench.daemon()
    sqlite = bench.sqlite_daemon()
    outcome = _paired(bench, "sqlite_vs_postgres",
                      lambda: bench.load("cycles", postgres.address)["per_second"],
                      lambda: bench.load("cycles", sqlite.address))
    bench.stop(sqlite, postgres)
    return outcome


# By key; those with one function are made together.
MEASURES = {
    "cycles_vs_two_commit_floor": cycles_vs_two_commit_floor,
    "lone_latency_vs_floor": lone_latency_vs_floor,
    "replay_vs_echo": replay_vs_echo,
    "guarded_first_vs_floor": guarded_first_vs_floor,
    "lone_first_switches": lone_first_switches,
    "embedded_first_switches": embedded_first_switches,
    "guarded_lone_vs_bare": guarded_lone_vs_bare,
    "guarded_replay_vs_echo": guarded_replay_vs_echo,
    "hot_replay_vs_echo": hot_replay_vs_echo,
    "wal_bytes_per_cycle": wal_bytes_per_cycle,
    "p999_vs_p50": p999_vs_p50,
    "hot_wait_ms": hot_wait_ms,
    "sealed_vs_plain": sealed,
    "sealed_cpu": sealed,
    "reseal_throughput": reseal,
    "reseal_wal_bytes": reseal,
    "fairness": fairness,
    "rss_mib": rss_mib,
    "rss_large_mib": rss_large_mib,
    "sqlite_vs_postgres": sqlite_vs_postgres,
    "sweep_throughput": sweep,
    "sweep_p99": sweep,
    "cycles_full_vs_empty": cycles_full,
    "cycles_full_mixed": cycles_full,
}

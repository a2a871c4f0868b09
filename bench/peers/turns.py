"""Loads on every contender in turns, and the medians of the rounds."""

import dataclasses
import json
import statistics
import subprocess
import time

LOADS = ("bare", "first", "replay", "hot")
CROWDS = (1, 16, 64)
# A number of a load's report, and of its row in the result.
FIELDS = ("per_second", "p50_us", "p99_us", "cpu_us")
# What a load may take beyond its own time: keys to complete, answers that are late.
_GRACE_S = 60


@dataclasses.dataclass(frozen=True)
class Times:
    """How long each load runs."""

    warmup_s: float
    seconds: float
    keys: int
    # The first load after a start, uncounted: connections, plans, compilers.
    start_s: float = 1.0


class Load:
    """The load program, connected to one contender."""

    def __init__(self, bench, program, target):
        self._bench = bench
        self._process = bench.start("load-client", [str(program), *target.flags],
                                    stdin=subprocess.PIPE)
        self._process.wait_for_line("load: ready")

    def run(self, load, in_flight, warmup_s, seconds, keys):
        """The report, with the servers' CPU time for each call; RuntimeError at a failure."""
        before = self._bench.cpu_seconds()
        report = self.put(load, in_flight, warmup_s, seconds, keys)
        if report["measured"] == 0:
            raise RuntimeError(f"{load}, {in_flight} in flight: no call ended in {seconds} s")
        report["cpu_us_by_process"] = cpu_us(before, self._bench.cpu_seconds(), report["ended"])
        report["cpu_us"] = sum(report["cpu_us_by_process"].values())
        return report

    def put(self, load, in_flight, warmup_s, seconds, keys):
        """The load program's report, which may be of no call."""
        self._process.write_line(json.dumps({
            "load": load, "in_flight": in_flight, "warmup_ms": round(warmup_s * 1000),
            "duration_ms": round(seconds * 1000), "keys": keys}))
        line = self._process.wait_for_line("result: ", limit=warmup_s + seconds + _GRACE_S)
        report = json.loads(line.partition("result: ")[2])
        check(load, report)
        return report


def check(load, report):
    """A load with a failure has no result: what was measured is not the thing that is named."""
    if report["failures"]:
        raise RuntimeError(f"{load}: {report['failures']} failures, the first: "
                           f"{report['first_failure']}")


def cpu_us(before, after, ended):
    """Of the servers, by process, for each call; the load's own processes do not count."""
    return {name: 1e6 * (seconds - before.get(name, 0)) / ended
            for name, seconds in after.items() if name not in ("load", "load-client")}


def turn(bench, program, contender, times):
    """Every load on one contender: reports by "LOAD/IN_FLIGHT". Its servers run only meanwhile."""
    try:
        target = contender.start(bench)
        load = Load(bench, program, target)
        load.put("first", 16, 0, times.start_s, 0)
        reports = {}
        for kind in LOADS:
            if kind == "bare" and not target.has_bare:
                continue
            if kind == "replay":
                # Completing the keys is no part of any number.
                load.put("replay", 64, 0, 0.05, times.keys)
            for crowd in CROWDS:
                reports[f"{kind}/{crowd}"] = load.run(kind, crowd, times.warmup_s, times.seconds,
                                                      times.keys)
        return reports
    finally:
        bench.stop_servers()


def rounds(bench, program, contenders, times, count):
    """Rounds in which each contender has its turn. Returns the reports by contender and load, one
    for each round, and the reasons of those that failed, which take no further turn."""
    reports, failed = {contender.key: {} for contender in contenders}, {}
    for number in range(count):
        for contender in contenders:
            if contender.key in failed:
                continue
            began = time.monotonic()
            try:
                done = turn(bench, program, contender, times)
            except (RuntimeError, OSError, ValueError, subprocess.SubprocessError) as error:
                lines = str(error).splitlines() or [type(error).__name__]
                failed[contender.key] = f"{' … '.join(dict.fromkeys([lines[0], lines[-1]]))[:400]}"
                bench.log(f"failed: {contender.title}: {failed[contender.key]}")
                continue
            for load, report in done.items():
                reports[contender.key].setdefault(load, []).append(report)
            bench.log(f"round {number + 1}: {contender.title}: " + ", ".join(
                f"{load} {report['per_second']:,.0f}/s" for load, report in done.items()
                if load.endswith("/64")) + f" ({time.monotonic() - began:.0f} s)")
    return reports, failed


def summary(reports):
    """The median, least and greatest of each number over the rounds, by load."""
    return {load: {field: {"median": statistics.median(values), "min": min(values),
                           "max": max(values)}
                   for field in FIELDS
                   for values in [[report[field] for report in of_rounds]]}
            for load, of_rounds in reports.items()}

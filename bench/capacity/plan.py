"""Tables of what N shards carry, from the figures."""

import dataclasses

from .model import Fleet, Lost, RollingUpgrade, limit, simulate, work
from .workload import Workload

SHARDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
# A shard is planned to this share of its limit, so that it takes peaks and drains a backlog.
PLANNED = 0.5
DAEMONS = 2
LOST_S = 30.0
UPGRADE_S = 5.0
LARGEST_RATE = 1_000_000
LITTLE_SKEW = 0.6
MUCH_SKEW = 1.1


def fleet_of(figures, shards, engine="postgres"):
    """Shards like the measured machine: its store, and two daemons on machines of the same kind."""
    cores = figures["cores"]
    # CPU time was measured with Postgres only; another store's limit is its batches.
    store_us = figures["postgres_cpu_us"] if engine == "postgres" else 0
    return Fleet(
        engine=figures.engines[engine], shards=shards, daemons=DAEMONS,
        daemon_rate=1e6 * cores / figures["daemon_cpu_us"],
        store_rate=1e6 * cores / store_us if store_us else float("inf"),
        replay_work=figures["replay_work"])


def carried(fleet, workload):
    """Calls per second so that the busiest shard is at its planned share."""
    one = dataclasses.replace(workload, calls_per_s=1000.0 * fleet.shards)
    # Caches answer more at a higher rate, so the work per call is at most that at this rate.
    busiest = max(work(fleet, one))
    return PLANNED * limit(fleet, fleet.daemons) * one.calls_per_s / busiest


@dataclasses.dataclass(frozen=True)
class Row:
    """What so many shards carry, in calls per second, and what faults do at that load."""

    shards: int
    by_key: float
    # Tenants on a shard each, little and much skew.
    by_tenant: float
    hot_tenants: float
    # A shard's store is lost for LOST_S: the share of the calls that wait beyond their deadline in
    # the minute and a half from then, and how long until no queue is left.
    late_share: float
    drained_s: float
    # While one daemon after the other restarts.
    upgrade_p99_s: float


def row(figures, shards, engine="postgres"):
    fleet = fleet_of(figures, shards, engine)
    by_key = carried(fleet, Workload(1))
    load = Workload(by_key)
    lost = simulate(fleet, load, [Lost(0.0, LOST_S)], seconds=3 * LOST_S, step_s=0.25)
    upgrade = simulate(fleet, load, [RollingUpgrade(1.0, UPGRADE_S)], seconds=15, step_s=0.25)
    return Row(shards, by_key,
               carried(fleet, Workload(1, placement="tenant", tenant_skew=LITTLE_SKEW)),
               carried(fleet, Workload(1, placement="tenant", tenant_skew=MUCH_SKEW)),
               lost.late / lost.offered, lost.queued_until_s, upgrade.delay_s(0.99))


def needed(figures, calls_per_s, engine="postgres"):
    """Shards for this rate, placed by key."""
    one = carried(fleet_of(figures, 1, engine), Workload(1))
    count = max(1, int(calls_per_s / one))
    while carried(fleet_of(figures, count, engine), Workload(1)) < calls_per_s:
        count += max(1, count // 50)
    return count


def largest(figures, shards, engine="postgres"):
    """LARGEST_RATE on so many shards, with a lost store and an upgrade at once."""
    return simulate(fleet_of(figures, shards, engine), Workload(LARGEST_RATE),
                    [Lost(1.0, LOST_S), RollingUpgrade(0.0, UPGRADE_S)], seconds=3 * LOST_S,
                    step_s=0.25)


def per_thousand(figures, repeats=0.1):
    """What 1,000 calls a second take."""
    rows = 1000 * (1 - repeats)
    cores = figures["cores"]
    return {
        "rows in a day": rows * 86400,
        "bytes in a day": rows * 86400 * figures["row_bytes"],
        "WAL bytes a second": rows * figures["wal_bytes"],
        "daemon cores": 1000 * figures["daemon_cpu_us"] / 1e6,
        "Postgres cores": 1000 * figures["postgres_cpu_us"] / 1e6,
        "daemons at half load": max(2.0, 1000 * figures["daemon_cpu_us"] / 1e6 / cores / PLANNED),
        "connections": 2 * (figures["store_connections"] + figures["other_connections"]),
    }


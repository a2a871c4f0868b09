"""A fluid model of N shards: calls arrive at a rate and wait, and a store takes them in batches.

Time goes in steps. Batches are as large as the load makes them: at the arrival rate of a shard, the
smallest size with which its store keeps up; with a queue, the largest. Nothing is drawn at random,
so the delays are those of means: the tail of a real system is longer.
"""

import dataclasses

from .figures import LARGEST_BATCH
from .workload import first_calls, replays

# Callers stop waiting then (a deadline), and retry.
DEADLINE_S = 10.0


@dataclasses.dataclass(frozen=True)
class Fleet:
    """Shards of one kind, each with its own daemons."""

    engine: object
    shards: int
    daemons: int
    # Cycles per second that the processors of one daemon's machine carry.
    daemon_rate: float
    # The same for the store's processors.
    store_rate: float
    # The work of a replay, in cycles.
    replay_work: float


@dataclasses.dataclass(frozen=True)
class Lost:
    """A shard's store is away, then back (a standby takes over, or it restarts)."""

    at_s: float
    for_s: float
    shard: int = 0

    def daemons(self, now, daemons):
        return daemons

    def store(self, now, shard):
        return 0.0 if shard == self.shard and self.at_s <= now < self.at_s + self.for_s else 1.0


@dataclasses.dataclass(frozen=True)
class RollingUpgrade:
    """One daemon of each shard after the other is away."""

    at_s: float
    each_s: float

    def daemons(self, now, daemons):
        away = self.at_s <= now < self.at_s + self.each_s * daemons
        return daemons - 1 if away else daemons

    def store(self, now, shard):
        return 1.0


class Result:
    """Of a simulation, over all shards."""

    def __init__(self):
        self.offered = 0.0
        self.answered = 0.0
        # Answered after the callers' deadline, or not at all.
        self.late = 0.0
        # The last time at which a queue of more than a step's calls was left.
        self.queued_until_s = 0.0
        self._delays = []

    def add(self, served, delay_s):
        self.answered += served
        self._delays.append((delay_s, served))
        if delay_s > DEADLINE_S:
            self.late += served

    def delay_s(self, share):
        """The delay that this share of the answered calls does not exceed."""
        wanted, seen = share * self.answered, 0.0
        for delay, served in sorted(self._delays):
            seen += served
            if seen >= wanted:
                return delay
        return 0.0


def limit(fleet, daemons):
    """Cycles per second of a shard at its best: its store's batches, its store's processors, its
    daemons' processors."""
    return min(fleet.engine.rate(LARGEST_BATCH), fleet.store_rate, daemons * fleet.daemon_rate)


def work(fleet, workload):
    """Cycles per second that each shard is given."""
    return [first + again * fleet.replay_work for first, again in zip(
        first_calls(workload, fleet.shards), replays(workload, fleet.shards))]


def simulate(fleet, workload, events=(), seconds=60.0, step_s=0.02):
    """The workload on the fleet, from empty queues."""
    result = Result()
    queues = [0.0] * fleet.shards
    arrivals = work(fleet, workload)
    quiet_s = [fleet.engine.cycle_us(fleet.engine.batch_for(rate)) / 1e6 for rate in arrivals]
    for number in range(round(seconds / step_s)):
        now = number * step_s
        daemons = fleet.daemons
        for event in events:
            daemons = event.daemons(now, daemons)
        capacity = limit(fleet, daemons)
        for shard, rate in enumerate(arrivals):
            up = min([event.store(now, shard) for event in events], default=1.0)
            queue = queues[shard] + rate * step_s
            served = min(queue, up * capacity * step_s)
            queues[shard] = queue - served
            result.offered += rate * step_s
            # First in, first out: the calls that are served now arrived before those that wait.
            if served > 0:
                result.add(served, queues[shard] / rate + quiet_s[shard])
            if queues[shard] > rate * step_s:
                result.queued_until_s = now
    for queue, rate in zip(queues, arrivals):
        # Of those that wait at the end, the ones whose deadline has passed.
        result.late += max(0.0, queue - DEADLINE_S * rate)
    return result


def closed_loop(engine, in_flight, machine_rate):
    """Cycles per second of so many callers, each with one call at a time, that share a machine with
    the store; `machine_rate` is what its processors carry of everything together."""
    batch = min(max(in_flight / engine.parallel, 1.0), LARGEST_BATCH)
    busy = min(engine.parallel, in_flight)
    return min(1e6 * busy * batch / engine.cycle_us(batch), machine_rate)

"""The load of each shard: skewed tenants and skewed keys."""

import dataclasses
import random


@dataclasses.dataclass(frozen=True)
class Workload:
    """Calls of all tenants."""

    calls_per_s: float
    # Share of the calls that repeat a key; the others are first calls, whose keys are new.
    repeats: float = 0.1
    tenants: int = 10_000
    # Weight of the tenant of rank r: r ** -skew.
    tenant_skew: float = 1.0
    # The same for the keys that are repeated, over so many keys.
    key_skew: float = 1.0
    repeated_keys: int = 10_000
    # Guarded servers. Each queries the store once in `cache_s` for a key that it replays.
    guards: int = 100
    cache_s: float = 10.0
    # "key": every record by the hash of its id; "tenant": a tenant is on one shard.
    placement: str = "key"


def zipf(count, skew):
    """Shares of the ranks; their sum is 1."""
    weights = [rank ** -skew for rank in range(1, count + 1)]
    total = sum(weights)
    return [weight / total for weight in weights]


def scattered(shares, shards, seed):
    """The sum of the shares on each shard, each item on one of them by a hash."""
    draw = random.Random(seed)
    sums = [0.0] * shards
    for share in shares:
        sums[draw.randrange(shards)] += share
    return sums


def reaching_store(rate, guards, cache_s):
    """Of the replays of one key, those that no guard's cache answers: each guard queries once, and
    answers from its memory for `cache_s`."""
    each = rate / guards
    return guards * each / (1 + each * cache_s)


def first_calls(workload, shards, seed=1):
    """First calls per second of each shard."""
    total = workload.calls_per_s * (1 - workload.repeats)
    if workload.placement == "key":
        return [total / shards] * shards
    return [total * share for share in scattered(
        zipf(workload.tenants, workload.tenant_skew), shards, seed)]


def replays(workload, shards, seed=2):
    """Replays per second that reach the store of each shard."""
    total = workload.calls_per_s * workload.repeats
    reaching = [reaching_store(total * share, workload.guards, workload.cache_s)
                for share in zipf(workload.repeated_keys, workload.key_skew)]
    return scattered(reaching, shards, seed)

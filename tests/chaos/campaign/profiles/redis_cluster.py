"""Records in a Redis Cluster whose replicas confirm each write; the ledger and its faults stay in
Postgres."""

from ..postgres_faults import PostgresFaults
from ..records.redis_cluster_records import RedisClusterRecords
from ..redis_cluster_faults import RedisClusterFaults
from .profile import Profile

PROFILE = Profile(records=RedisClusterRecords, faults=(PostgresFaults, RedisClusterFaults))

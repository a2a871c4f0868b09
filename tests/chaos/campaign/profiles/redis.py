"""Records in one durable Redis server; the ledger and its faults stay in Postgres."""

from ..postgres_faults import PostgresFaults
from ..records.redis_records import RedisRecords
from ..redis_faults import RedisFaults
from .profile import Profile

PROFILE = Profile(records=RedisRecords, faults=(PostgresFaults, RedisFaults))

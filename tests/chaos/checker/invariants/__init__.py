"""The promises of the README, and of the table in docs/states.md, one class each."""

from .completions_kept import CompletionsKept
from .effects_per_attempt import EffectsPerAttempt
from .fingerprints_apart import FingerprintsApart
from .innocence import Innocence
from .keys_required import KeysRequired
from .leases_apart import LeasesApart
from .ledger_effects import LedgerEffects
from .liveness import Liveness
from .one_reply import OneReply
from .rising_attempts import RisingAttempts
from .scopes_apart import ScopesApart
from .serial_order import SerialOrder
from .stale_tokens import StaleTokens
from .whole_operations import WholeOperations

INVARIANTS = (EffectsPerAttempt, RisingAttempts, LedgerEffects, OneReply, CompletionsKept,
              FingerprintsApart, StaleTokens, LeasesApart, WholeOperations, SerialOrder,
              ScopesApart, KeysRequired, Innocence, Liveness)

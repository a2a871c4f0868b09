#ifndef IDEMPOTENCY_TESTS_SIMULATION_TALLY_H_
#define IDEMPOTENCY_TESTS_SIMULATION_TALLY_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace idempotency::internal::simulation {

// The events of runs, so that a run without events is detected.
enum class Count : std::size_t {
  // Verdicts of the store.
  kFirstGrant,
  kGrantRepeated,
  kTookOver,
  kRecovering,
  kGrantedAfterRelease,
  kGrantedAfterExpiry,
  kReplay,
  kInFlight,
  kMismatch,
  kOutcomeUnknown,
  kExpired,
  // Its other answers.
  kCompleted,
  kCompletionRepeated,
  kCompletedLate,
  kReleased,
  kReleasedUnknown,
  kExtended,
  kTokenRefused,
  kSwept,
  kMarkedUnknown,
  // Faults.
  kAppKilled,
  kDaemonKilled,
  kAppStopped,
  kDaemonStopped,
  kGuardEnded,
  kProcessPaused,
  kWallClockJumped,
  kStoreClockJumped,
  kPartition,
  kMessageLost,
  kMessageDuplicated,
  kMessageLate,
  kStreamBroken,
  kDaemonWithoutSessions,
  kStoreOutage,
  kStoreFailedBefore,
  kStoreFailedAfter,
  kStoreHappenedLater,
  kStoreLeftForNextCall,
  kLedgerAway,
  kCommitInDoubt,
  // The results of callers and handlers.
  kHandlerRan,
  kEffect,
  kEffectAfterLoss,
  kReplyGiven,
  kReplayGiven,
  kFailureGiven,
  kKeyReusedGiven,
  kKeyExpiredGiven,
  kOutcomeUnknownGiven,
  kInFlightGiven,
  kUnavailableGiven,
  kReservationLostGiven,
  kNotRecordedGiven,
  kCallerLeft,
  kAbandoned,
  kCheckpoint,
  kRecoveryRan,
  kLedgerRefusedSecond,
  kLedgerDecided,
  kSettledAtTheEnd,
  kCounts,
};

inline constexpr std::size_t kCounts = static_cast<std::size_t>(Count::kCounts);

inline constexpr std::array<const char*, kCounts> kCountNames = {
    "grants: first",
    "grants: repeated for the same request token",
    "grants: taken over",
    "grants: recovering",
    "grants: after a release",
    "grants: after the record had expired",
    "verdicts: replay",
    "verdicts: in flight",
    "verdicts: mismatch",
    "verdicts: outcome unknown",
    "verdicts: expired",
    "completions",
    "completions: repeated",
    "completions: after the lease",
    "releases",
    "releases: outcome unknown",
    "extensions",
    "tokens refused",
    "records swept",
    "records marked unknown by the sweep",
    "faults: application server killed",
    "faults: daemon killed",
    "faults: application server stopped in order",
    "faults: daemon stopped in order",
    "guards ended in order",
    "faults: process paused",
    "faults: wall clock of a process jumped",
    "faults: clock of the store jumped",
    "faults: partition",
    "faults: message lost",
    "faults: message duplicated",
    "faults: message late",
    "faults: stream broken",
    "faults: daemon without sessions",
    "faults: store away",
    "faults: store failed before it happened",
    "faults: store failed after it happened",
    "faults: store failed, and it happened later",
    "faults: store left operations for the next call",
    "faults: ledger away",
    "faults: commit in doubt",
    "handlers run",
    "effects",
    "effects: after the reservation was lost",
    "callers: reply",
    "callers: replay",
    "callers: recorded failure",
    "callers: KEY_REUSED",
    "callers: KEY_EXPIRED",
    "callers: OUTCOME_UNKNOWN",
    "callers: IN_FLIGHT",
    "callers: STORE_UNAVAILABLE",
    "callers: RESERVATION_LOST",
    "callers: OUTCOME_NOT_RECORDED",
    "callers: left before the answer",
    "handlers: left without an answer",
    "handlers: checkpoint stored",
    "recovery handlers run",
    "ledger: second commit refused",
    "ledger: decides about a failure",
    "keys settled after the faults",
};

struct Tally {
  std::array<std::uint64_t, kCounts> counts{};

  std::uint64_t& operator[](Count count) { return counts[static_cast<std::size_t>(count)]; }
};

}  // namespace idempotency::internal::simulation

#endif  // IDEMPOTENCY_TESTS_SIMULATION_TALLY_H_

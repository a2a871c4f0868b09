#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_UNKNOWN_OUTCOME_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_UNKNOWN_OUTCOME_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "grpc_idempotency/server_guard/recovery_handler.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

// The consequence of an unknown outcome: the handler returned an indefinite code or threw, or
// the lease of its attempt expired.
enum class UnknownOutcome {
  kRunAgain,      // a second execution is acceptable
  kLookUpLedger,  // an operation in the completion ledger is replayed; others run again
  kRecover,       // nothing runs again until the outcome is known
};

// The choice for a method or a BeginCall with this policy and this recovery handler (which may
// be empty); nullopt if there is none. The first of these decides: the policy's own choice; the
// recovery handler; the choice for the whole server; the completion ledger.
std::optional<UnknownOutcome> ChosenUnknownOutcome(const MethodPolicy& policy,
                                                   const RecoveryHandler& recovery,
                                                   const GuardOptions& options);

// Never LEASE_EXPIRY_UNSPECIFIED. The ledger's is TAKE_OVER: the guard queries the ledger
// before any attempt after the first runs, and the ledger's primary key lets only one of them
// commit.
v1::LeaseExpiry LeaseExpiryFor(UnknownOutcome chosen);

// "after a crash ...; after a failure ...", for the start-up log.
std::string DescribeUnknownOutcome(std::optional<UnknownOutcome> chosen, const MethodPolicy& policy,
                                   const RecoveryHandler& recovery, const GuardOptions& options);

// The possible choices, for the error about a missing choice.
std::string UnknownOutcomeChoices();

// Why a policy may not relax its reservations, and what to do; "" if it may, or does not. A lost
// reservation frees its key, so it must be the ledger that decides what has happened.
std::string RelaxationFault(const MethodPolicy& policy, std::optional<UnknownOutcome> chosen,
                            const GuardOptions& options);

// How long a record is not granted again after an attempt with an unknown outcome, if a second
// execution is acceptable: 1 s, 4 s, 16 s, then 60 s. The first is short enough for a brief
// failure. The second outlasts gRPC's own retries (5 tries within about 4 s, since a guard's
// pushback is 1 s at most): one call of a retrying client makes two executions at most, not
// five.
inline constexpr absl::Duration kFirstReleasePause = absl::Seconds(1);
inline constexpr int kReleasePauseGrowth = 4;
inline constexpr absl::Duration kLongestReleasePause = absl::Minutes(1);

// After `attempt`, counted from 1.
inline absl::Duration ReleasePause(std::uint32_t attempt) {
  absl::Duration pause = kFirstReleasePause;
  for (std::uint32_t i = 1; i < attempt && pause < kLongestReleasePause; ++i) {
    pause *= kReleasePauseGrowth;
  }
  return std::min(pause, kLongestReleasePause);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_UNKNOWN_OUTCOME_H_

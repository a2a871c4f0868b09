#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_DISPOSITION_RULE_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_DISPOSITION_RULE_H_

#include <grpcpp/support/status.h>

#include <string>
#include <vector>

#include "grpc_idempotency/server_guard/disposition.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency::internal {

enum class UnknownOutcome;

// `no_effect` is the handler's own declaration; it counts only for codes that are not recorded.
// `on_unknown` is for codes that prove nothing.
Disposition DispositionFor(const MethodPolicy& policy, UnknownOutcome on_unknown,
                           grpc::StatusCode code, bool no_effect);

// The policy's recorded codes, and OK.
bool IsRecorded(const MethodPolicy& policy, grpc::StatusCode code);

// The policy's released codes, as far as they may mean "nothing happened".
bool IsReleased(const MethodPolicy& policy, grpc::StatusCode code);

// True if the handler reports by this status that it had no effect: the policy releases its code,
// and the handler made it. One of another guard, and gRPC's own for a reply over a receive limit,
// may be passed on from a call that had an effect, also by an earlier try.
bool ReportsNoEffect(const MethodPolicy& policy, const grpc::Status& status);

// False for an error of the catalogue that a handler passes on (from another guard, for example):
// it states nothing about this operation, whatever its code. `details` are a status's.
bool IsOutcome(grpc::StatusCode code, const std::string& details);

// Those of `candidates`, the details that one reply carries in the order of the wire, that count:
// an error of the catalogue if there is one, otherwise the first, which gRPC's clients read.
std::string DetailsAmong(std::vector<std::string> candidates);

// WithoutContent(), with the details by which a reply is no outcome (IsOutcome); such a reply is
// never stored.
v1::Reply CapturedWithoutContent(const v1::Reply& reply);

// False for the codes of ProvesNothing(): gRPC generates them whatever the handler did.
bool CanBeRecorded(grpc::StatusCode code);

// True if the code may mean "nothing happened": not OK, and none that gRPC generates (also not
// INTERNAL).
bool CanBeReleased(grpc::StatusCode code);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_POLICY_DISPOSITION_RULE_H_

#ifndef IDEMPOTENCY_CLIENT_RETRIES_OUTCOME_RULE_H_
#define IDEMPOTENCY_CLIENT_RETRIES_OUTCOME_RULE_H_

#include <grpcpp/support/status.h>
#include <grpcpp/support/string_ref.h>

#include <map>

namespace idempotency::internal {

// As ClientContext::GetServerTrailingMetadata() returns it.
using Trailers = std::multimap<grpc::string_ref, grpc::string_ref>;

// True if `status` is the outcome of the operation, so that its key is no longer needed:
//
// - OK.
// - A status without a reason of the catalogue that a guard has recorded: its trailers have
//   idempotency-replayed, or idempotency-record with idempotency-expires. Without them a proxy,
//   an interceptor or gRPC itself may have made it after a lost answer: of an earlier try, of
//   gRPC's own retries, or of an earlier run. A guard leaves idempotency-expires out where it
//   has not recorded the handler's status.
//
// No reason of the catalogue is one. KEY_INVALID and REQUEST_INVALID refuse this try only: the
// bounds of a namespace, the routes of a processor or the headers that a gateway adds may have
// been others when an earlier run sent the same key.
//
// `status` is that of the last try, with `trailers`, and is not retryable.
bool IsOutcome(const grpc::Status& status, const Trailers& trailers);

// True for a status that the guard has recorded, of a code that gRPC itself never returns. Each
// further try would get the same replay. Of the other codes the trailers prove nothing: gRPC makes
// INTERNAL or UNIMPLEMENTED of an OK whose reply it cannot decode, and leaves the trailers of that
// OK.
bool IsReplayed(const grpc::Status& status, const Trailers& trailers);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_RETRIES_OUTCOME_RULE_H_

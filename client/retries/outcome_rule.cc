#include "client/retries/outcome_rule.h"

#include <string_view>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal {
namespace {

bool Has(const Trailers& trailers, std::string_view name) {
  return trailers.count(grpc::string_ref(name.data(), name.size())) > 0;
}

bool IsRecorded(const Trailers& trailers) {
  return Has(trailers, kReplayedMetadata) ||
         (Has(trailers, kRecordMetadata) && Has(trailers, kExpiresMetadata));
}

}  // namespace

bool IsOutcome(const grpc::Status& status, const Trailers& trailers) {
  if (status.ok()) return true;
  if (ReasonOf(FromGrpcStatus(status)).has_value()) return false;
  // gRPC itself fails a call whose reply is too large; the trailers may be those of the reply.
  return IsRecorded(trailers) && !IsOverReceiveLimit(status);
}

bool IsReplayed(const grpc::Status& status, const Trailers& trailers) {
  return status.error_code() != grpc::StatusCode::INTERNAL && !ProvesNothing(status.error_code()) &&
         IsOutcome(status, trailers);
}

}  // namespace idempotency::internal

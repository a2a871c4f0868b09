#include "server/rpc/unary_request.h"

#include <optional>
#include <utility>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::StatusOr<MemoryBudget::Hold> AdmitRequest(grpc::ByteBuffer& bytes,
                                                const google::protobuf::Descriptor& type,
                                                std::size_t max_parsed_bytes, OperationKind kind,
                                                MemoryBudget& budget) {
  const absl::StatusOr<std::size_t> weight = ParsedBytes(bytes, type, max_parsed_bytes);
  if (!weight.ok()) return weight.status();
  std::optional<MemoryBudget::Hold> hold = budget.TryHoldRequest(*weight, BringsWork(kind));
  if (!hold.has_value()) return NoRoomForRequest();
  return *std::move(hold);
}

absl::Status NoRoomForRequest() {
  return MakeError(
      Reason::kOverloaded,
      "Requests and answers fill the memory reserved for them. Nothing was done; try again later.",
      RetryAfter(retry_delays::kServiceOverloaded));
}

}  // namespace idempotency::internal

#include "grpc_idempotency/client/pinned_key.h"

#include <string>

#include "absl/types/span.h"

#include "grpc_idempotency/idempotency_key.h"

namespace idempotency {

absl::Status WithKey(grpc::ClientContext& context, std::string_view key) {
  const auto parsed = ParseIdempotencyKey(absl::MakeConstSpan(&key, 1));
  if (!parsed.ok()) return parsed.status();
  // Unchanged: the guard reads it in the same way.
  context.AddMetadata(std::string(kKeyMetadata), std::string(key));
  return absl::OkStatus();
}

}  // namespace idempotency

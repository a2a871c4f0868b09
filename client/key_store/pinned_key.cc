#include "grpc_idempotency/client/pinned_key.h"

#include <string>
#include <string_view>

#include "absl/types/span.h"

#include "grpc_idempotency/idempotency_key.h"

namespace idempotency {
namespace {

// No key has a comma.
constexpr std::string_view kRefusedKey = ",the-key-given-to-WithKey-is-invalid";

}  // namespace

absl::Status WithKey(grpc::ClientContext& context, std::string_view key) {
  const auto parsed = ParseIdempotencyKey(absl::MakeConstSpan(&key, 1));
  // Unchanged: the guard reads it in the same way.
  context.AddMetadata(std::string(kKeyMetadata), std::string(parsed.ok() ? key : kRefusedKey));
  return parsed.status();
}

}  // namespace idempotency

#include "grpc_idempotency/server_guard/key_validator.h"

#include <optional>

#include "grpc_idempotency/uuid.h"

namespace idempotency {

KeyValidator UuidKeys() {
  return [](std::string_view key) {
    const std::optional<Uuid> uuid = Uuid::Parse(key);
    if (uuid.has_value() && !uuid->is_nil()) return absl::OkStatus();
    return absl::InvalidArgumentError("this method accepts only UUIDs, in their 36-character form");
  };
}

KeyValidator Uuidv7Keys() {
  return [](std::string_view key) {
    const std::optional<Uuid> uuid = Uuid::Parse(key);
    if (uuid.has_value() && uuid->TimeOrderedAt().has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "this method accepts only UUIDs of version 7, in their 36-character form");
  };
}

}  // namespace idempotency

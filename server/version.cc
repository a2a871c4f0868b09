#include "server/version.h"

namespace idempotency {

absl::string_view Version() { return IDEMPOTENCY_VERSION; }

}  // namespace idempotency

#include "server/observability/version.h"

namespace idempotency::internal {

absl::string_view Version() { return IDEMPOTENCY_VERSION; }

}  // namespace idempotency::internal

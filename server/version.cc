#include "server/version.h"

namespace idempotency {

std::string_view Version() { return IDEMPOTENCY_VERSION; }

}  // namespace idempotency

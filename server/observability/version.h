#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_VERSION_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_VERSION_H_

#include "absl/strings/string_view.h"

namespace idempotency::internal {

// MAJOR.MINOR.PATCH of this build, from the file VERSION.
absl::string_view Version();

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_VERSION_H_

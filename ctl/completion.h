#ifndef IDEMPOTENCY_CTL_COMPLETION_H_
#define IDEMPOTENCY_CTL_COMPLETION_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {

// A script that completes the commands and flags of idempotencyctl in `shell`: bash, zsh or fish.
// INVALID_ARGUMENT for any other.
absl::StatusOr<std::string> CompletionScript(absl::string_view shell);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_COMPLETION_H_

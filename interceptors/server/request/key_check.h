#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_KEY_CHECK_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_KEY_CHECK_H_

#include <string_view>

#include "absl/status/status.h"

#include "grpc_idempotency/server_guard/key_validator.h"

namespace idempotency::internal {

// The verdict of a method's validator, which is not empty, on a key that ParseIdempotencyKey() has
// made. KEY_INVALID with the validator's advice, if it refuses the key.
absl::Status CheckKey(const KeyValidator& validator, std::string_view key);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_KEY_CHECK_H_

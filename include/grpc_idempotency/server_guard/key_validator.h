#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_KEY_VALIDATOR_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_KEY_VALIDATOR_H_

#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency {

// A method's own requirement on its keys, beyond the general one (ParseIdempotencyKey()).
// Receives the key unquoted, a UUID in lower case. A status other than OK refuses the call with
// KEY_INVALID; its message is sent to the caller as advice and must not quote the key. Called
// on gRPC's threads: it must be thread-safe and must not block.
using KeyValidator = std::function<absl::Status(std::string_view key)>;

// Accepts UUIDs of any version in the 36-character form, except the nil UUID.
KeyValidator UuidKeys();
// Accepts UUIDs of version 7, which contain their creation time: a key that is used again after
// its record has expired is then refused (KEY_EXPIRED), and its operation does not run again.
KeyValidator Uuidv7Keys();

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_KEY_VALIDATOR_H_

#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_KEY_VALIDATOR_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_KEY_VALIDATOR_H_

#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency {

// What a method asks of its keys, beyond what is asked of every key. Gets the
// key unquoted, a UUID in lower case. Anything but OK refuses the call with
// KEY_INVALID; the message is the caller's advice and must not quote the key.
// Called on gRPC's threads: it must be thread-safe and must not block.
using KeyValidator = std::function<absl::Status(std::string_view key)>;

// UUIDs of any version in the 36-character form, but not the nil UUID.
KeyValidator UuidKeys();
// UUIDs of version 7, which tell when they were made: a key that comes back
// after its record was forgotten is then refused (KEY_EXPIRED), not run again.
KeyValidator Uuidv7Keys();

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_KEY_VALIDATOR_H_

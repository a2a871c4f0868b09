#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_ERRORS_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_ERRORS_H_

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"

namespace idempotency::internal {

// RESOURCE_EXHAUSTED / OVERLOADED, for one operation at a limit of its session.
absl::Status SessionOverloaded(std::string_view message);

// INVALID_ARGUMENT / REQUEST_INVALID: `error`, with the number of the frame that it concerns, from
// 1, so that the caller can send that frame's operations separately.
absl::Status OfFrame(std::uint64_t number, const absl::Status& error);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SESSION_ERRORS_H_

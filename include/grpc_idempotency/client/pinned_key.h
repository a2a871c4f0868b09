#ifndef GRPC_IDEMPOTENCY_CLIENT_PINNED_KEY_H_
#define GRPC_IDEMPOTENCY_CLIENT_PINNED_KEY_H_

#include <grpcpp/client_context.h>

#include <string_view>

#include "absl/status/status.h"

namespace idempotency {

// Sets the key of one call, for retries that outlive this process: store the key with the work,
// and send it on every try. Once per context: a guard refuses a call with two different keys.
// INVALID_ARGUMENT / KEY_INVALID for a key that no guard would accept. The context then has one
// that each guard refuses: without it, a call that is sent nevertheless would get a new key from
// the client interceptor on every try.
absl::Status WithKey(grpc::ClientContext& context, std::string_view key);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_PINNED_KEY_H_

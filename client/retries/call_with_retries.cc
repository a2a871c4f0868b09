#include "grpc_idempotency/client/call_with_retries.h"

#include "client/retries/retry_loop.h"

namespace idempotency {

using internal::RetryTime;

grpc::Status CallWithRetries(std::string_view key, SteadyTime deadline,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const CallRetries& retries) {
  return CallWithRetries(key, deadline, call, retries, RetryTime());
}

grpc::Status CallWithRetries(KeyStore& keys, std::string_view work, SteadyTime deadline,
                             const std::function<absl::StatusOr<bool>()>& is_done,
                             const std::function<grpc::Status(grpc::ClientContext&)>& call,
                             const std::function<bool(const grpc::Status&)>& settle,
                             const CallRetries& retries) {
  return CallWithRetries(keys, work, deadline, is_done, call, settle, retries, RetryTime());
}

}  // namespace idempotency

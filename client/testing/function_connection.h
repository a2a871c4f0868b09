#ifndef IDEMPOTENCY_CLIENT_TESTING_FUNCTION_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_TESTING_FUNCTION_CONNECTION_H_

#include <functional>
#include <utility>

#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// Each operation is a call of a function of the test, which answers it, keeps it, or passes it to
// another connection. As thread-safe as the function is.
class FunctionConnection final : public Connection {
 public:
  using Function = std::function<void(AnyConnectionCall call, Deadline deadline)>;

  explicit FunctionConnection(Function send) : send_(std::move(send)) {}

  void Send(AnyConnectionCall call, Deadline deadline) override {
    send_(std::move(call), deadline);
  }

 private:
  const Function send_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_TESTING_FUNCTION_CONNECTION_H_

#ifndef IDEMPOTENCY_CLIENT_TESTING_SCRIPTED_CONNECTION_H_
#define IDEMPOTENCY_CLIENT_TESTING_SCRIPTED_CONNECTION_H_

#include <functional>
#include <type_traits>
#include <utility>
#include <variant>

#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// A Connection whose answers are a function of the test; it has no state of its own and keeps no
// deadlines. As thread-safe as the function.
class ScriptedConnection final : public Connection {
 public:
  // Answers the call, or keeps it (with a copy of its request) and answers it later.
  using Script = std::function<void(AnyConnectionCall call, Deadline deadline)>;

  explicit ScriptedConnection(Script script) : script_(std::move(script)) {}

  void Send(AnyConnectionCall call, Deadline deadline) override {
    script_(std::move(call), deadline);
  }

 private:
  const Script script_;
};

// Answers a call with an empty response.
inline void AnswerEmpty(const AnyConnectionCall& call) {
  std::visit(
      [](const auto& typed) { typed.done(typename std::decay_t<decltype(typed)>::Response()); },
      call);
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_TESTING_SCRIPTED_CONNECTION_H_

#ifndef IDEMPOTENCY_CLIENT_TESTING_CONNECTION_DECORATOR_H_
#define IDEMPOTENCY_CLIENT_TESTING_CONNECTION_DECORATOR_H_

#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/status.h"

#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal {

// A Connection in front of another, with hooks of the test. As thread-safe as the hooks.
class ConnectionDecorator final : public Connection {
 public:
  // OK sends the call; any other status answers it, and it is not sent. To be called once: on any
  // thread, at once or later, but before the connection is destroyed.
  using Pass = std::function<void(const absl::Status&)>;
  // Called with the status of each answer to one call, before that is delivered.
  using BeforeAnswer = std::function<void(const absl::Status&)>;

  struct Hooks {
    // Called for each call, in its Send(). Without it calls are sent.
    std::function<void(const AnyConnectionCall& call, Pass pass)> before_sending;
    // Called for each call before that. Without it answers are only delivered.
    std::function<BeforeAnswer(const AnyConnectionCall& call, Deadline deadline)> watch_answers;
  };

  ConnectionDecorator(std::unique_ptr<Connection> inner, Hooks hooks)
      : hooks_(std::move(hooks)), inner_(std::move(inner)) {}

  void Send(AnyConnectionCall call, Deadline deadline) override {
    if (hooks_.watch_answers != nullptr) Watch(call, deadline);
    if (hooks_.before_sending == nullptr) return inner_->Send(std::move(call), deadline);
    Pass pass = std::visit([&](const auto& typed) { return PassOf(typed, deadline); }, call);
    hooks_.before_sending(call, std::move(pass));
  }

 private:
  void Watch(AnyConnectionCall& call, Deadline deadline) {
    BeforeAnswer before = hooks_.watch_answers(call, deadline);
    std::visit(
        [&before](auto& typed) {
          using Response = typename std::decay_t<decltype(typed)>::Response;
          typed.done = [before = std::move(before),
                        done = std::move(typed.done)](absl::StatusOr<Response> answer) {
            before(answer.status());
            done(std::move(answer));
          };
        },
        call);
  }

  // With a copy of the request, which may be sent later.
  template <typename Call>
  Pass PassOf(const Call& call, Deadline deadline) {
    return [this, request = call.request, done = call.done, deadline](const absl::Status& status) {
      if (!status.ok()) return done(status);
      inner_->Send(Call{request, done}, deadline);
    };
  }

  const Hooks hooks_;
  // The last member: it answers its calls when it is destroyed.
  const std::unique_ptr<Connection> inner_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_TESTING_CONNECTION_DECORATOR_H_

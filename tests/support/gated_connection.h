#ifndef IDEMPOTENCY_TESTS_SUPPORT_GATED_CONNECTION_H_
#define IDEMPOTENCY_TESTS_SUPPORT_GATED_CONNECTION_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::testing {

// Holds operations of a gated connection back, or makes them fail. Shared by the test and the
// connection. Thread-safe.
class ConnectionGate {
 public:
  // Afterwards Reserve (or Complete) is not sent before OpenAll().
  void HoldReserves();
  void HoldCompletes();
  void OpenAll();
  // Completes fail with this and are not sent, until OK is set again.
  void FailCompletes(absl::Status status);
  // Waits until `count` operations are held. False after 20 s.
  bool AwaitHeld(std::size_t count);

  // Passes `call` to `inner`, now or in OpenAll(), or makes it fail.
  void Pass(const std::shared_ptr<Connection>& inner, AnyConnectionCall call,
            Connection::Deadline deadline);

 private:
  void Run(bool reserve, std::function<void()> send);
  absl::Status complete_failure();

  Mutex mutex_;
  CondVar changed_;
  bool hold_reserves_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_completes_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status complete_failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> held_ ABSL_GUARDED_BY(mutex_);
};

// A Connection in front of a real one, with a gate.
std::unique_ptr<Connection> MakeGatedConnection(std::unique_ptr<Connection> inner,
                                                std::shared_ptr<ConnectionGate> gate);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_GATED_CONNECTION_H_

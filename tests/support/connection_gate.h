#ifndef IDEMPOTENCY_TESTS_SUPPORT_CONNECTION_GATE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_CONNECTION_GATE_H_

#include <memory>
#include <vector>

#include "client/testing/connection_decorator.h"
#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::testing {

// Holds operations of a connection back, or makes them fail. Shared by the test and the connection
// that Gated() returns. Thread-safe.
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

 private:
  friend std::unique_ptr<Connection> Gated(std::unique_ptr<Connection> inner,
                                           std::shared_ptr<ConnectionGate> gate);
  void Receive(const AnyConnectionCall& call, ConnectionDecorator::Pass pass);

  Mutex mutex_;
  CondVar changed_;
  bool hold_reserves_ ABSL_GUARDED_BY(mutex_) = false;
  bool hold_completes_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status complete_failure_ ABSL_GUARDED_BY(mutex_);
  std::vector<ConnectionDecorator::Pass> held_ ABSL_GUARDED_BY(mutex_);
};

// `inner` behind the gate. The gate is open before the connection is destroyed.
std::unique_ptr<Connection> Gated(std::unique_ptr<Connection> inner,
                                  std::shared_ptr<ConnectionGate> gate);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_CONNECTION_GATE_H_

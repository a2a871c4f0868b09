#ifndef IDEMPOTENCY_TESTS_SUPPORT_GATED_CONNECTION_H_
#define IDEMPOTENCY_TESTS_SUPPORT_GATED_CONNECTION_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"

namespace idempotency::internal::testing {

// Holds operations of a GatedConnection back, or makes them fail. Shared by the test and the
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

 private:
  friend class GatedConnection;
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
class GatedConnection final : public Connection {
 public:
  GatedConnection(std::unique_ptr<Connection> inner, std::shared_ptr<ConnectionGate> gate)
      : gate_(std::move(gate)), inner_(std::move(inner)) {}

  void Send(AnyConnectionCall call, Deadline deadline) override;

 private:
  using Reserving = ConnectionCall<v1::ReserveRequest, v1::ReserveResponse>;
  using Completing = ConnectionCall<v1::CompleteRequest, v1::CompleteResponse>;

  const std::shared_ptr<ConnectionGate> gate_;
  const std::unique_ptr<Connection> inner_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_GATED_CONNECTION_H_

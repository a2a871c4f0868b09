// Calls that outlive gRPC's five attempts, as README.md and docs/clients.md show
// them, compiled so that they stay true.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

#include "examples/payments/payments.grpc.pb.h"

// [clients:retries]
#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/deadline.h"

grpc::Status Charge(payments::v1::Payments::Stub& stub, const std::string& stored_key,
                    const payments::v1::ChargeRequest& request, payments::v1::ChargeReply& reply) {
  const auto deadline = idempotency::DeadlineIn(absl::Minutes(10));
  return idempotency::CallWithRetries(stored_key, deadline, [&](grpc::ClientContext& context) {
    return stub.Charge(&context, request, &reply);
  });
}
// [clients:end]

// [clients:options]
class PaymentsClient {
 public:
  explicit PaymentsClient(std::unique_ptr<payments::v1::Payments::Stub> stub)
      : stub_(std::move(stub)) {
    // One bound for the retries of every call to this service.
    retries_.budget =
        &idempotency::RetryBudget::ForService(payments::v1::Payments::service_full_name());
    retries_.canceller = &canceller_;  // ends every call when the process shuts down
    retries_.max_backoff = absl::Seconds(5);
    // The service answers RESOURCE_EXHAUSTED before it does anything.
    retries_.also_retried = {grpc::StatusCode::RESOURCE_EXHAUSTED};
  }

  grpc::Status Refund(const std::string& stored_key, const payments::v1::RefundRequest& request,
                      payments::v1::RefundReply& reply) {
    return idempotency::CallWithRetries(
        stored_key, idempotency::DeadlineIn(absl::Minutes(2)),
        [&](grpc::ClientContext& context) { return stub_->Refund(&context, request, &reply); },
        retries_);
  }
  void ShutDown() { canceller_.Cancel(); }

 private:
  const std::unique_ptr<payments::v1::Payments::Stub> stub_;
  idempotency::RetryCanceller canceller_;
  idempotency::CallRetries retries_;
};
// [clients:end]

// [clients:stored]
#include "grpc_idempotency/client/sqlite_key_store.h"

// Both use the application's own database. `is_paid` reads what every process has committed, and
// fails if it cannot; `mark_paid` returns true once its write is committed.
grpc::Status ChargeOrder(idempotency::KeyStore& keys, payments::v1::Payments::Stub& stub,
                         const std::string& order, const payments::v1::ChargeRequest& request,
                         const std::function<absl::StatusOr<bool>()>& is_paid,
                         const std::function<bool(const std::string& charge_id)>& mark_paid) {
  payments::v1::ChargeReply reply;
  return idempotency::CallWithRetries(
      keys, order + "/charge", idempotency::DeadlineIn(absl::Minutes(10)),
      // Called once the key is stored: if it returns true, nothing is sent.
      is_paid, [&](grpc::ClientContext& context) { return stub.Charge(&context, request, &reply); },
      // The key is forgotten only if this returns true.
      [&](const grpc::Status& status) { return status.ok() && mark_paid(reply.charge_id()); });
}

std::unique_ptr<idempotency::KeyStore> OpenKeys() {
  auto keys = idempotency::SqliteKeyStore::Open("/var/lib/shop/keys.sqlite");
  return keys.ok() ? *std::move(keys) : nullptr;
}
// [clients:end]

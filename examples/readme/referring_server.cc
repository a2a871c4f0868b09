// The way of docs/replies.md to keep references, compiled so that it stays true.
#include <grpcpp/grpcpp.h>

#include <cstdint>
#include <optional>
#include <string>

#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "grpc_idempotency/server_guard/guard_options.h"

// The application's store of its charges.
class Books {
 public:
  virtual ~Books() = default;
  virtual payments::v1::ChargeReply Charge(const std::string& account,
                                           std::int64_t amount_cents) = 0;
  virtual std::optional<payments::v1::ChargeReply> Find(const std::string& charge_id) = 0;
};

class PaymentsService final : public payments::v1::Payments::Service {
 public:
  explicit PaymentsService(Books& books) : books_(books) {}

  grpc::Status Charge(grpc::ServerContext* context, const payments::v1::ChargeRequest* request,
                      payments::v1::ChargeReply* reply) override;

 private:
  Books& books_;
};

// [replies:handler]
grpc::Status PaymentsService::Charge(grpc::ServerContext* context,
                                     const payments::v1::ChargeRequest* request,
                                     payments::v1::ChargeReply* reply) {
  *reply = books_.Charge(request->account(), request->amount_cents());
  if (auto* execution = idempotency::Execution::FromContext(context); execution != nullptr) {
    execution->SetReference("charge", reply->charge_id());
  }
  return grpc::Status::OK;
}
// [replies:end]

// [replies:loader]
void KeepReferences(Books& books, idempotency::GuardOptions& options) {
  const std::string charge = "/payments.v1.Payments/Charge";
  options.methods[charge].adjust = [](idempotency::MethodPolicy& policy) {
    policy.reply = idempotency::MethodPolicy::Reply::kReference;
  };
  options.methods[charge].loader = idempotency::LoadReply<payments::v1::ChargeReply>(
      [&books](const idempotency::v1::Reference& reference, payments::v1::ChargeReply& reply) {
        const auto found = books.Find(reference.id());
        if (!found.has_value()) return absl::NotFoundError("no such charge");
        reply = *found;
        return absl::OkStatus();
      });
}
// [replies:end]

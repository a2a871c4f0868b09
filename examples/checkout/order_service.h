#ifndef IDEMPOTENCY_EXAMPLES_CHECKOUT_ORDER_SERVICE_H_
#define IDEMPOTENCY_EXAMPLES_CHECKOUT_ORDER_SERVICE_H_

#include <grpcpp/channel.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <memory>
#include <string>
#include <utility>

#include "examples/checkout/book.h"
#include "examples/checkout/checkout.grpc.pb.h"
#include "examples/checkout/fail_point.h"
#include "grpc_idempotency/server_guard/execution.h"

namespace checkout {

// The workflow: payment, inventory, and the order itself. Runs behind a guard, and calls services
// that are guarded too. Thread-safe.
class OrderService final : public v1::Orders::Service {
 public:
  // Does not own `book`. The channels have the client interceptor.
  OrderService(Book& book, const std::shared_ptr<grpc::Channel>& payments,
               const std::shared_ptr<grpc::Channel>& inventory, FailPoint fail_point)
      : book_(book),
        payments_(v1::Payments::NewStub(payments)),
        inventory_(v1::Inventory::NewStub(inventory)),
        fail_point_(std::move(fail_point)) {}

  // Crashes, if requested, at "before-payment", "before-inventory", "before-refund",
  // "before-refusal", "before-order" and "before-reply".
  grpc::Status Place(grpc::ServerContext* context, const v1::PlaceRequest* request,
                     v1::PlaceReply* reply) override;

 private:
  grpc::Status Refund(grpc::ServerContext& context, idempotency::Execution& execution,
                      const std::string& payment_id, const grpc::Status& refusal);

  Book& book_;
  const std::unique_ptr<v1::Payments::Stub> payments_;
  const std::unique_ptr<v1::Inventory::Stub> inventory_;
  const FailPoint fail_point_;
};

}  // namespace checkout

#endif  // IDEMPOTENCY_EXAMPLES_CHECKOUT_ORDER_SERVICE_H_

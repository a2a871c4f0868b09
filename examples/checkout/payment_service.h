#ifndef IDEMPOTENCY_EXAMPLES_CHECKOUT_PAYMENT_SERVICE_H_
#define IDEMPOTENCY_EXAMPLES_CHECKOUT_PAYMENT_SERVICE_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <utility>

#include "examples/checkout/book.h"
#include "examples/checkout/checkout.grpc.pb.h"
#include "examples/checkout/fail_point.h"

namespace checkout {

// The first step: a charge is an entry in the book, and so is a refund. Thread-safe.
class PaymentService final : public v1::Payments::Service {
 public:
  // Does not own `book`.
  PaymentService(Book& book, FailPoint fail_point)
      : book_(book), fail_point_(std::move(fail_point)) {}

  // Crashes, if requested, at "before-effect" and "before-reply".
  grpc::Status Charge(grpc::ServerContext* context, const v1::ChargeRequest* request,
                      v1::ChargeReply* reply) override;
  grpc::Status Refund(grpc::ServerContext* context, const v1::RefundRequest* request,
                      v1::RefundReply* reply) override;

 private:
  Book& book_;
  const FailPoint fail_point_;
};

}  // namespace checkout

#endif  // IDEMPOTENCY_EXAMPLES_CHECKOUT_PAYMENT_SERVICE_H_

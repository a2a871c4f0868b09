#include "examples/checkout/order_service.h"

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/client/recorded_outcome.h"
#include "grpc_idempotency/server_guard/execution.h"

namespace checkout {
namespace {

bool IsInRange(std::int64_t number) { return number >= 1 && number <= 1'000'000; }

// [workflows:step]
// A step without an answer leaves the order open: UNAVAILABLE is not recorded, so that the same key
// may be sent again.
grpc::Status Open(const std::string& step, absl::string_view why) {
  return {grpc::StatusCode::UNAVAILABLE, absl::StrCat(step, ": ", why)};
}

bool IsOpen(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE;
}

// The step's recorded outcome, which is final: every attempt gets it. Otherwise UNAVAILABLE.
grpc::Status Step(const std::string& name, grpc::ServerContext& context,
                  idempotency::Execution& execution,
                  const std::function<grpc::Status(grpc::ClientContext&)>& call) {
  const auto step = grpc::ClientContext::FromServerContext(context);
  const absl::Status attached = execution.Attach(*step, name);
  if (!attached.ok()) return Open(name, attached.message());
  const grpc::Status status = call(*step);
  return idempotency::IsRecordedOutcome(status, *step) ? status
                                                       : Open(name, status.error_message());
}

// The order's own answer to a step's refusal, with a code that is recorded.
grpc::Status Refused(const std::string& step, const grpc::Status& refusal) {
  return {grpc::StatusCode::FAILED_PRECONDITION, absl::StrCat(step, ": ", refusal.error_message())};
}
// [workflows:end]

}  // namespace

// [workflows:place]
grpc::Status OrderService::Place(grpc::ServerContext* context, const v1::PlaceRequest* request,
                                 v1::PlaceReply* reply) {
  auto* execution = idempotency::Execution::FromContext(context);
  if (execution == nullptr) return {grpc::StatusCode::INTERNAL, "not guarded"};
  if (!IsInRange(request->quantity()) || !IsInRange(request->price_cents())) {
    return {grpc::StatusCode::INVALID_ARGUMENT, "quantity and price_cents must be 1 to 1,000,000"};
  }
  // The same on every attempt, as every argument of a step must be.
  const std::string& order_id = execution->record_id();
  if (auto begun = book_.Begin(order_id, execution->attempt()); !begun.ok()) {
    return Open("order", begun.message());
  }

  fail_point_.Reach("before-payment");
  v1::ChargeRequest charge;
  charge.set_order_id(order_id);
  charge.set_amount_cents(request->quantity() * request->price_cents());
  v1::ChargeReply charged;
  const grpc::Status payment =
      Step("payment", *context, *execution,
           [&](grpc::ClientContext& step) { return payments_->Charge(&step, charge, &charged); });
  if (IsOpen(payment)) return payment;
  if (!payment.ok()) return Refused("payment", payment);

  fail_point_.Reach("before-inventory");
  v1::TakeRequest take;
  take.set_order_id(order_id);
  take.set_item(request->item());
  take.set_quantity(request->quantity());
  v1::TakeReply taken;
  const grpc::Status inventory =
      Step("inventory", *context, *execution,
           [&](grpc::ClientContext& step) { return inventory_->Take(&step, take, &taken); });
  if (IsOpen(inventory)) return inventory;
  if (!inventory.ok()) return Refund(*context, *execution, charged.payment_id(), inventory);

  fail_point_.Reach("before-order");
  if (auto entered = book_.Enter(order_id, absl::StrCat(request->quantity(), " ", request->item()));
      !entered.ok()) {
    return Open("order", entered.message());
  }
  fail_point_.Reach("before-reply");
  reply->set_order_id(order_id);
  reply->set_payment_id(charged.payment_id());
  reply->set_picking_id(taken.picking_id());
  return grpc::Status::OK;
}

// Compensates for the payment after a refusal of a later step.
grpc::Status OrderService::Refund(grpc::ServerContext& context, idempotency::Execution& execution,
                                  const std::string& payment_id, const grpc::Status& refusal) {
  fail_point_.Reach("before-refund");
  v1::RefundRequest request;
  request.set_payment_id(payment_id);
  v1::RefundReply refunded;
  const grpc::Status refund = Step("refund", context, execution, [&](grpc::ClientContext& step) {
    return payments_->Refund(&step, request, &refunded);
  });
  // A refused refund is for a person: the order stays open.
  if (!refund.ok()) return Open("refund", refund.error_message());
  fail_point_.Reach("before-refusal");
  return Refused("inventory", refusal);
}
// [workflows:end]

}  // namespace checkout

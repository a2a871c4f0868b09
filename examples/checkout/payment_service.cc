#include "examples/checkout/payment_service.h"

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "grpc_idempotency/server_guard/execution.h"

namespace checkout {
namespace {

constexpr absl::string_view kRefundPrefix = "refund-";

// The failure may be temporary: the same key may be sent again.
grpc::Status Open(const absl::Status& why) {
  return {grpc::StatusCode::UNAVAILABLE, std::string(why.message())};
}

}  // namespace

grpc::Status PaymentService::Charge(grpc::ServerContext* context, const v1::ChargeRequest* request,
                                    v1::ChargeReply* reply) {
  auto* execution = idempotency::Execution::FromContext(context);
  if (execution == nullptr) return {grpc::StatusCode::INTERNAL, "not guarded"};
  const std::string& record_id = execution->record_id();
  if (auto begun = book_.Begin(record_id, execution->attempt()); !begun.ok()) return Open(begun);
  fail_point_.Reach("before-effect");
  const absl::Status entered = book_.Enter(
      record_id,
      absl::StrCat(request->amount_cents(), " cents", " for order ", request->order_id()));
  if (!entered.ok()) return Open(entered);
  fail_point_.Reach("before-reply");
  reply->set_payment_id(record_id);
  return grpc::Status::OK;
}

grpc::Status PaymentService::Refund(grpc::ServerContext* context, const v1::RefundRequest* request,
                                    v1::RefundReply* reply) {
  auto* execution = idempotency::Execution::FromContext(context);
  if (execution == nullptr) return {grpc::StatusCode::INTERNAL, "not guarded"};
  const std::string& payment_id = request->payment_id();
  const auto charged = book_.Has(payment_id);
  if (!charged.ok()) return Open(charged.status());
  if (!*charged || absl::StartsWith(payment_id, kRefundPrefix)) {
    return {grpc::StatusCode::NOT_FOUND, "no such payment"};
  }
  // The payment's id, not this record's: another key must not give the money back again.
  const std::string refund_id = absl::StrCat(kRefundPrefix, payment_id);
  const absl::Status entered = book_.Enter(refund_id, absl::StrCat("refund of ", payment_id));
  if (!entered.ok()) return Open(entered);
  reply->set_refund_id(refund_id);
  return grpc::Status::OK;
}

}  // namespace checkout

// docs/workflows.md: handlers that call other guarded services.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <string>

#include "examples/payments/payments.grpc.pb.h"
#include "grpc_idempotency/client/call_with_retries.h"
#include "grpc_idempotency/client/recorded_outcome.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/server_guard/execution.h"

namespace {

grpc::Status Open(const std::string& why) { return {grpc::StatusCode::UNAVAILABLE, why}; }

}  // namespace

// [workflows:labels]
grpc::Status RefundAll(idempotency::Execution& execution, payments::v1::Payments::Stub& payments,
                       const payments::v1::ListEntriesReply& charges) {
  grpc::Status refused;
  for (const auto& charge : charges.entries()) {
    payments::v1::RefundRequest request;
    request.set_charge_id(charge.id());
    request.set_amount_cents(-charge.amount_cents());
    payments::v1::RefundReply reply;
    grpc::ClientContext context;
    // By what it is, not by its turn.
    const auto attached = execution.Attach(context, "refund-" + charge.id());
    if (!attached.ok()) return Open(std::string(attached.message()));
    const grpc::Status status = payments.Refund(&context, request, &reply);
    if (status.ok()) continue;
    if (!idempotency::IsRecordedOutcome(status, context)) return Open(status.error_message());
    refused = {grpc::StatusCode::FAILED_PRECONDITION,
               "refund of " + charge.id() + ": " + status.error_message()};
  }
  // A refusal is final, so an open operation would stay open for ever. The others are refunded.
  return refused;
}
// [workflows:end]

// [workflows:retries]
grpc::Status Charge(idempotency::Execution& execution, payments::v1::Payments::Stub& payments,
                    const payments::v1::ChargeRequest& request, payments::v1::ChargeReply& reply) {
  const auto key = execution.DownstreamKey("charge");
  if (!key.ok()) return Open(std::string(key.status().message()));
  const auto deadline = idempotency::DeadlineIn(absl::Seconds(30));
  bool recorded = false;
  const grpc::Status status =
      idempotency::CallWithRetries(*key, deadline, [&](grpc::ClientContext& context) {
        recorded = false;
        // So that the charge's record names its parent; the key is the same.
        const auto attached = execution.Attach(context, "charge");
        if (!attached.ok()) return Open(std::string(attached.message()));
        const grpc::Status charged = payments.Charge(&context, request, &reply);
        recorded = idempotency::IsRecordedOutcome(charged, context);
        return charged;
      });
  if (status.ok()) return status;
  if (!recorded) return Open(status.error_message());
  return {grpc::StatusCode::FAILED_PRECONDITION, "charge: " + status.error_message()};
}
// [workflows:end]

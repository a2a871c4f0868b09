// A handler and its recovery (docs/recovery.md), compiled so that they stay true.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

#include "examples/payments/payments.grpc.pb.h"
#include "examples/readme/bank.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/uuid.h"

namespace {

// The handler as it was before the guard: a key of the bank for each call.
grpc::Status ChargeUnguarded(const payments::v1::ChargeRequest& request,
                             payments::v1::ChargeReply* reply, Bank& bank) {
  reply->set_charge_id(idempotency::Uuid::Random().ToString());
  return bank.Pay(reply->charge_id(), request.amount_cents());
}

}  // namespace

// [recovery:handler]
grpc::Status Charge(grpc::ServerContextBase* context, const payments::v1::ChargeRequest& request,
                    payments::v1::ChargeReply* reply, Bank& bank) {
  idempotency::Execution* execution = idempotency::Execution::FromContext(context);
  if (execution == nullptr) return ChargeUnguarded(request, reply, bank);
  // The input of recovery, durable before the effect that recovery checks.
  const std::string bank_key = absl::StrCat(execution->record_id(), "-", execution->attempt());
  if (absl::Status stored = execution->Checkpoint(bank_key); !stored.ok()) {
    execution->MarkNoEffect();
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not started");
  }
  grpc::Status paid = bank.Pay(bank_key, request.amount_cents());
  reply->set_charge_id(execution->record_id());
  return paid;
}
// [recovery:end]

// [recovery:register]
void RecoverCharges(idempotency::GuardOptions& options, std::shared_ptr<Bank> bank) {
  using payments::v1::ChargeReply;
  using payments::v1::ChargeRequest;
  using Decision = idempotency::TypedRecoveryDecision<ChargeReply>;
  const std::string method = "/payments.v1.Payments/Charge";

  options.methods[method].adjust = [](idempotency::MethodPolicy& policy) {
    policy.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  };
  options.background_recovery = true;
  options.methods[method].recovery = idempotency::TypedRecovery<ChargeRequest, ChargeReply>(
      [bank](const idempotency::RecoveryCase& lost, const ChargeRequest*) -> Decision {
        // It had not begun, and cannot any more: its Checkpoint() is refused. Not with fail_open:
        // a handler may have run without a checkpoint, so LeaveUnknown().
        if (lost.checkpoint.empty()) return Decision::Release();
        // Not "is it paid?": a slow attempt may pay after the answer.
        const std::optional<bool> paid = bank->CancelUnlessPaid(lost.checkpoint);
        if (!paid.has_value()) return Decision::LeaveUnknown();
        if (!*paid) return Decision::Release();
        ChargeReply reply;
        reply.set_charge_id(lost.record_id);
        return Decision::CompleteWith(reply);
      });
}
// [recovery:end]

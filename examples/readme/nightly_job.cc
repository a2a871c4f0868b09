// docs/explicit.md's batch job, compiled so that it stays true.
#include <functional>
#include <string>

#include "google/protobuf/wrappers.pb.h"

// [explicit:job]
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/server_guard.h"

// Sends one customer's statement: once, however often the job is started. OK: it is sent.
absl::Status SendStatement(
    idempotency::ServerGuard& guard, const std::string& customer, const std::string& month,
    const std::string& statement_json,
    const std::function<absl::StatusOr<std::string>(const std::string& idempotency_key)>& send) {
  idempotency::BeginCall call;
  call.operation = "billing.send-statement";
  call.scope = customer;
  call.key = month;  // "2026-11"
  call.policy.lease = absl::Minutes(1);
  // A second attempt is acceptable: the mail service detects it by the record id.
  call.policy.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kTakeOver;
  call.policy.retention = absl::Hours(24 * 60);  // longer than the job could be started again

  auto begun = guard.Begin(call, idempotency::OpaqueRequest{"application/json", statement_json});
  // Also IN_FLIGHT: another instance has it, or had it and crashed, or it failed a moment ago.
  // Nothing shows yet that it is sent: start the job again later.
  if (!begun.ok()) return begun.status();
  google::protobuf::StringValue reply;
  if (begun->decision() == idempotency::BegunOperation::Decision::kReplay) {
    return idempotency::FromGrpcStatus(begun->ReadReply(reply));  // a failure, if that is recorded
  }

  // The mail service gets the record id too, and so a second attempt sends nothing.
  const absl::StatusOr<std::string> receipt = send(begun->record_id());
  if (!receipt.ok()) {
    // Its own status only reports whether the failure is recorded.
    begun->Fail(idempotency::ToGrpcStatus(receipt.status())).IgnoreError();
    return receipt.status();
  }
  reply.set_value(*receipt);
  return begun->Complete(reply);
}
// [explicit:end]

#include "examples/inbox/consumer.h"

#include <cstdio>
#include <optional>
#include <string>

#include "examples/inbox/inbox.pb.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace inbox {
namespace {

// A failure that no later delivery can change.
bool IsPoison(const absl::Status& status) {
  const auto reason = idempotency::ReasonOf(status);
  return status.code() == absl::StatusCode::kInvalidArgument ||
         reason == idempotency::Reason::kKeyReused || reason == idempotency::Reason::kKeyExpired;
}

}  // namespace

absl::StatusOr<bool> Consumer::Next() {
  const absl::StatusOr<std::optional<Message>> received = queue_.Receive();
  if (!received.ok()) return received.status();
  if (!received->has_value()) return false;
  const Message& message = **received;
  const absl::Status status = Consume(message);
  absl::Status settled;
  if (status.ok()) {
    settled = queue_.Acknowledge(message);
  } else if (IsPoison(status)) {
    settled = queue_.SetAside(message, std::string(status.message()));
  }
  // Otherwise it is delivered again by itself.
  std::printf("%s, delivery %d: %s\n", message.id.c_str(), message.deliveries,
              status.ok() ? "done" : std::string(status.message()).c_str());
  std::fflush(stdout);
  if (!settled.ok()) return settled;
  return true;
}

// [explicit:consume]
absl::Status Consumer::Consume(const Message& message) {
  v1::Deposit deposit;
  if (!deposit.ParseFromString(message.body)) return absl::InvalidArgumentError("not a deposit");
  idempotency::BeginCall call;
  call.operation = "inbox.deposit";
  call.scope = "bank";    // the one producer of this queue
  call.key = message.id;  // the producer's: the same when it sends again
  call.policy.lease = lease_;
  // A second attempt is acceptable: it finds the first one's deposit.
  call.policy.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kTakeOver;

  auto begun = guard_.Begin(call, deposit);
  if (!begun.ok()) return begun.status();  // nothing was done
  if (begun->decision() == idempotency::BegunOperation::Decision::kReplay) return absl::OkStatus();

  const auto balance_cents =
      accounts_.Deposit(begun->record_id(), deposit.account(), deposit.amount_cents());
  if (balance_cents.ok()) {
    v1::DepositReply reply;
    reply.set_balance_cents(*balance_cents);
    return begun->Complete(reply);
  }
  const grpc::Status failure = idempotency::ToGrpcStatus(balance_cents.status());
  // It fails each time that it is tried: that is its outcome.
  if (absl::IsNotFound(balance_cents.status())) return begun->Complete(failure);
  begun->Fail(failure).IgnoreError();  // if this is lost, its lease expires
  return balance_cents.status();
}
// [explicit:end]

}  // namespace inbox

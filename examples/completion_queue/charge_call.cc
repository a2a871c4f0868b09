#include "examples/completion_queue/charge_call.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/refusal.h"

namespace completion_queue {
namespace {

absl::StatusOr<std::string> KeyOf(const grpc::ServerContext& context) {
  std::vector<std::string_view> values;
  const auto range = context.client_metadata().equal_range(
      {idempotency::kKeyMetadata.data(), idempotency::kKeyMetadata.size()});
  for (auto entry = range.first; entry != range.second; ++entry) {
    values.emplace_back(entry->second.data(), entry->second.size());
  }
  return idempotency::ParseIdempotencyKey(values);
}

}  // namespace

void ChargeCall::Expect(const ChargeServer& server) {
  // Its events own it: see Handle.
  ChargeCall* const call = std::unique_ptr<ChargeCall>(new ChargeCall(server)).release();
  server.service.RequestCharge(&call->context_, &call->request_, &call->writer_, &server.queue,
                               &server.queue, call);
}

ChargeCall::ChargeCall(const ChargeServer& server)
    : server_(server), writer_(&context_), begun_(absl::UnknownError("no verdict yet")) {}

bool ChargeCall::HandleNext(grpc::ServerCompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  if (!queue.Next(&tag, &ok)) return false;
  static_cast<ChargeCall*>(tag)->Handle(ok);
  return true;
}

void ChargeCall::Handle(bool ok) {
  switch (awaiting_) {
    case Awaiting::kClient:
      if (ok) {
        Expect(server_);
        Begin();
        return;
      }
      break;  // the server is shutting down
    case Awaiting::kVerdict:
      OnVerdict();
      return;
    case Awaiting::kSent:
      break;
  }
  const std::unique_ptr<ChargeCall> ended(this);
}

// [explicit:async]
// A client's call has arrived, on a thread of the completion queue.
void ChargeCall::Begin() {
  const absl::StatusOr<std::string> key = KeyOf(context_);
  if (!key.ok()) {
    Refuse(key.status());
    return;
  }
  idempotency::BeginCall call;
  call.operation = "payments.charge";
  call.scope = "everybody";  // or who called, by context_.auth_context()
  call.key = *key;
  // After a crash or a failure that proves nothing: OUTCOME_UNKNOWN, no second charge.
  call.policy.on_unknown_outcome = idempotency::MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  call.deadline = idempotency::SteadyDeadline(context_.raw_deadline());
  awaiting_ = Awaiting::kVerdict;
  server_.guard.Begin(call, request_, [this](absl::StatusOr<idempotency::BegunOperation> begun) {
    // On the guard's thread, which is not for work: back to the queue's.
    begun_ = std::move(begun);
    verdict_is_here_.Set(&server_.queue, std::chrono::system_clock::now(), this);
  });
}

void ChargeCall::OnVerdict() {
  if (!begun_.ok()) {
    Refuse(begun_.status());
    return;
  }
  context_.AddTrailingMetadata(std::string(idempotency::kRecordMetadata), begun_->record_id());
  if (begun_->decision() == idempotency::BegunOperation::Decision::kRun) {
    Run();
    return;
  }
  context_.AddTrailingMetadata(std::string(idempotency::kReplayedMetadata), "true");
  Answer(begun_->ReadReply(reply_));
}

void ChargeCall::Run() {
  const grpc::Status status = server_.charge(*begun_->execution(), request_, &reply_);
  // The client gets the status once it is recorded.
  const auto recorded = [this, status](const absl::Status& outcome) {
    if (outcome.ok()) {
      Answer(status);
    } else if (idempotency::IsRecordGone(outcome)) {
      AnswerUnrecorded(status);
    } else {
      Refuse(outcome);
    }
  };
  if (status.ok()) {
    begun_->Complete(reply_, recorded);
  } else {
    begun_->Fail(status, recorded);
  }
}

void ChargeCall::Refuse(const absl::Status& why) {
  if (const auto pushback = idempotency::PushbackFor(why); pushback.has_value()) {
    context_.AddTrailingMetadata(std::string(idempotency::kPushbackMetadata), *pushback);
  }
  Answer(idempotency::ToGrpcStatus(why));
}

// The record was removed while the work ran: a retry would run it again.
void ChargeCall::AnswerUnrecorded(const grpc::Status& status) {
  if (!status.ok()) {
    context_.AddTrailingMetadata(std::string(idempotency::kPushbackMetadata),
                                 std::string(idempotency::kNoRetryPushback));
  }
  Answer(status);
}

void ChargeCall::Answer(const grpc::Status& status) {
  awaiting_ = Awaiting::kSent;
  // The next event may come before this returns: nothing is touched after it.
  if (status.ok()) {
    writer_.Finish(reply_, status, this);
  } else {
    writer_.FinishWithError(status, this);
  }
}
// [explicit:end]

}  // namespace completion_queue

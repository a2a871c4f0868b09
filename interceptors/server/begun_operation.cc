#include "grpc_idempotency/server_guard/begun_operation.h"

#include <atomic>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/request_rules.h"
#include "core/utf8.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "interceptors/server/execution/live_execution.h"
#include "interceptors/server/execution/reply_body.h"
#include "interceptors/server/execution/settlement.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/threads/awaited.h"

namespace idempotency {

using internal::Await;
using internal::Contained;
using internal::GuardedOperation;
using internal::IsOutcome;
using internal::IsRecorded;
using internal::LiveExecution;
using internal::LogEvent;
using internal::SetBody;
using internal::Settlement;
using internal::ToUtf8;
using internal::Utf8Prefix;
using internal::ValidateReleaseReason;

namespace {

v1::Reply ReplyOf(const google::protobuf::Message& message) {
  v1::Reply reply;
  SetBody(message, reply);
  return reply;
}

v1::Reply ReplyOf(const grpc::Status& failure) {
  v1::Reply reply;
  reply.set_code(static_cast<int>(failure.error_code()));
  reply.set_message(ToUtf8(failure.error_message()));
  reply.set_details(failure.error_details());
  return reply;
}

// OK only if the store acknowledged it.
absl::Status AnswerOf(const Settlement::Outcome& outcome) {
  if (!outcome.error.ok()) return outcome.error;
  return outcome.unrecorded.ok() ? outcome.release : outcome.unrecorded;
}

// Answers the application's own callback.
Settlement::Done AnswerTo(const GuardedOperation& operation, BegunOperation::Done done) {
  return [done = Contained(operation.log, operation.name, "the callback of a settled operation",
                           std::move(done))](const Settlement::Outcome& outcome) {
    done(AnswerOf(outcome));
  };
}

}  // namespace

struct BegunOperation::Run {
  explicit Run(std::shared_ptr<LiveExecution> live) : execution(std::move(live)) {}

  const std::shared_ptr<LiveExecution> execution;
  std::atomic<bool> settled{false};
};

BegunOperation::BegunOperation(std::string record_id, std::shared_ptr<LiveExecution> execution)
    : record_id_(std::move(record_id)), run_(std::make_unique<Run>(std::move(execution))) {}

BegunOperation::BegunOperation(std::string record_id, v1::Reply reply)
    : record_id_(std::move(record_id)), reply_(std::move(reply)) {}

BegunOperation::BegunOperation(BegunOperation&& other) noexcept = default;

BegunOperation& BegunOperation::operator=(BegunOperation&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  record_id_ = std::move(other.record_id_);
  run_ = std::move(other.run_);
  reply_ = std::move(other.reply_);
  return *this;
}

BegunOperation::~BegunOperation() { Abandon(); }

void BegunOperation::Abandon() {
  if (run_ == nullptr || run_->settled.exchange(true)) return;
  const GuardedOperation& operation = run_->execution->operation();
  operation.log->Warn(LogEvent::kAbandoned, operation.name, ": record ", record_id_,
                      ": begun, but neither completed nor released; its effects are unknown");
  Settlement::Settle(
      run_->execution,
      std::make_unique<v1::Reply>(ReplyOf(grpc::Status(grpc::StatusCode::CANCELLED, "abandoned"))),
      [](const Settlement::Outcome&) {});
}

BegunOperation::Decision BegunOperation::decision() const {
  return run_ == nullptr ? Decision::kReplay : Decision::kRun;
}

Execution* BegunOperation::execution() const {
  return run_ == nullptr ? nullptr : run_->execution.get();
}

absl::Status BegunOperation::Take() {
  if (run_ == nullptr) {
    return absl::FailedPreconditionError("this operation is not running: it is a replay");
  }
  if (run_->settled.exchange(true)) {
    return absl::FailedPreconditionError("this operation is already settled");
  }
  return absl::OkStatus();
}

void BegunOperation::Settle(v1::Reply reply, Done done) {
  if (const absl::Status taken = Take(); !taken.ok()) {
    done(taken);
    return;
  }
  SettleTaken(std::move(reply), std::move(done));
}

void BegunOperation::SettleTaken(v1::Reply reply, Done done) {
  Settlement::Settle(run_->execution, std::make_unique<v1::Reply>(std::move(reply)),
                     AnswerTo(run_->execution->operation(), std::move(done)));
}

absl::Status BegunOperation::Complete(const google::protobuf::Message& reply) {
  return Await<absl::Status>([&](Done done) { Complete(reply, std::move(done)); });
}

void BegunOperation::Complete(const google::protobuf::Message& reply, Done done) {
  const std::string declared =
      run_ == nullptr ? "" : run_->execution->operation().reply_type.name();
  if (!declared.empty() && reply.GetDescriptor()->full_name() != declared) {
    done(absl::InvalidArgumentError(absl::StrCat("the reply is a ",
                                                 std::string(reply.GetDescriptor()->full_name()),
                                                 ", but BeginCall::reply_type is ", declared)));
    return;
  }
  if (const absl::Status taken = Take(); !taken.ok()) {
    done(taken);
    return;
  }
  // So that fields which must not be stored are left out.
  run_->execution->RepliesWith(*reply.GetDescriptor());
  SettleTaken(ReplyOf(reply), std::move(done));
}

absl::Status BegunOperation::Complete(const grpc::Status& failure) {
  return Await<absl::Status>([&](Done done) { Complete(failure, std::move(done)); });
}

void BegunOperation::Complete(const grpc::Status& failure, Done done) {
  // OK is recorded, but without a message it would be no reply.
  const bool recorded =
      run_ == nullptr ||
      (!failure.ok() && IsRecorded(run_->execution->operation().policy, failure.error_code()));
  if (!IsOutcome(failure.error_code(), failure.error_details())) {
    done(absl::InvalidArgumentError(
        "an error with a reason of this library is no outcome of this operation"));
    return;
  }
  if (!recorded) {
    done(absl::InvalidArgumentError(
        absl::StrCat("the policy does not record ", StatusCodeName(failure.error_code()))));
    return;
  }
  Settle(ReplyOf(failure), std::move(done));
}

absl::Status BegunOperation::Fail(const grpc::Status& failure) {
  return Await<absl::Status>([&](Done done) { Fail(failure, std::move(done)); });
}

void BegunOperation::Fail(const grpc::Status& failure, Done done) {
  if (failure.ok()) {
    done(absl::InvalidArgumentError("OK is not a failure: complete the operation with a message"));
    return;
  }
  Settle(ReplyOf(failure), std::move(done));
}

absl::Status BegunOperation::Release(std::string reason) {
  return Await<absl::Status>([&](Done done) { Release(std::move(reason), std::move(done)); });
}

void BegunOperation::Release(std::string reason, Done done) {
  const std::string_view kept = Utf8Prefix(reason, limits::kMaxReleaseReasonBytes);
  if (const absl::Status valid = ValidateReleaseReason(kept, "release.reason"); !valid.ok()) {
    done(valid);
    return;
  }
  if (const absl::Status taken = Take(); !taken.ok()) {
    done(taken);
    return;
  }
  Settlement::ReleaseWithoutEffect(run_->execution, std::string(kept),
                                   AnswerTo(run_->execution->operation(), std::move(done)));
}

const v1::Reply& BegunOperation::reply() const { return reply_; }

grpc::Status BegunOperation::ReadReply(google::protobuf::Message& into) const {
  if (run_ != nullptr) {
    return {grpc::StatusCode::INTERNAL, "this operation is running: there is no reply yet"};
  }
  if (reply_.code() != static_cast<int>(grpc::StatusCode::OK)) {
    return {StatusCodeFrom(reply_.code()), reply_.message(), reply_.details()};
  }
  if (!into.ParsePartialFromString(reply_.body())) {
    return {grpc::StatusCode::INTERNAL, "the recorded reply has another type"};
  }
  return grpc::Status::OK;
}

}  // namespace idempotency

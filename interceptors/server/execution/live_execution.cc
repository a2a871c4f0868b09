#include "interceptors/server/execution/live_execution.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/utf8.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/record_key.h"
#include "interceptors/server/execution/row_reference.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/threads/awaited.h"

namespace idempotency::internal {

LiveExecution::LiveExecution(std::shared_ptr<const GuardedOperation> operation,
                             std::shared_ptr<Reservation> reservation)
    : operation_(std::move(operation)),
      reservation_(std::move(reservation)),
      labels_(reserved().labels().begin(), reserved().labels().end()),
      reply_type_(operation_->reply_type) {}

absl::Time LiveExecution::expires_at() const { return FromWire(reserved().expires_at()); }

void LiveExecution::RepliesWith(const google::protobuf::Descriptor& type) {
  MutexLock lock(mutex_);
  if (reply_type_.name().empty()) reply_type_ = ReplyType(type);
}

ReplyType LiveExecution::reply_type() const {
  MutexLock lock(mutex_);
  return reply_type_;
}

void LiveExecution::SetReference(std::string_view type, std::string_view id) {
  if (type.size() + id.size() > limits::kMaxReferenceBytes || !IsUtf8(type) || !IsUtf8(id)) {
    operation_->log->Error(LogEvent::kInvalidReference, operation_->name, ": record ", record_id(),
                           ": a reference must be UTF-8 of at most ", limits::kMaxReferenceBytes,
                           " bytes: not kept");
    return;
  }
  MutexLock lock(mutex_);
  reference_.emplace();
  reference_->set_type(std::string(type));
  reference_->set_id(std::string(id));
}

std::optional<v1::Reference> LiveExecution::reference() const {
  MutexLock lock(mutex_);
  return reference_;
}

absl::Status LiveExecution::Checkpoint(std::string_view progress) {
  return Await<absl::Status>([&](Reservation::Stored stored) {
    reservation_->Checkpoint(std::string(progress), std::move(stored));
  });
}

void LiveExecution::Checkpoint(std::string progress, std::function<void(absl::Status)> done) {
  reservation_->Checkpoint(std::move(progress),
                           Contained(operation_->log, operation_->name,
                                     "the callback of a checkpoint", std::move(done)));
}

absl::StatusOr<LedgerRow> LiveExecution::NewLedgerRow(const RecordedReply& reply) {
  if (operation_->options.ledger == nullptr) {
    return absl::FailedPreconditionError(
        "GuardOptions.ledger is not set: the guard would never look for the row");
  }
  const grpc::StatusCode code = StatusCodeFrom(reply.reply().code());
  // OK has a message, or for a stream any number of messages.
  const bool is_stream = operation_->policy.stream != MethodPolicy::Stream::kUnguarded;
  const bool fits = is_stream ? !reply.reply().has_body()
                              : reply.reply().stream().empty() &&
                                    reply.reply().has_body() == (code == grpc::StatusCode::OK);
  if (!CanBeRecorded(code) || !fits) {
    return absl::InvalidArgumentError(
        "RecordInTransaction takes the response message, or a status that is a final outcome");
  }
  ledger_row_begun_.store(true, std::memory_order_release);
  if (LedgerCommitPermit permit = MayCommit(); !permit.status.ok()) return permit.status;
  LedgerRow row;
  row.log = GuardLog::SinkFor(operation_->log, LogEvent::kLedgerRowNotWritten);
  row.record_key = FromProto(reserve_request().record_key());
  row.record_id = RecordIdFor(row.record_key);
  std::vector<Fingerprint> fingerprints;
  for (const v1::Fingerprint& sent : reserve_request().fingerprints()) {
    fingerprints.push_back(FromProto(sent));
  }
  row.fingerprints = EncodeFingerprints(fingerprints);
  row.attempt = attempt();
  row.reply = EncodeReply(ReplyOfRow(reply));
  // Both times are the store's, so that no other clock shortens it. The record may live longer
  // than under the present policy.
  const absl::Duration record_life = reserved().has_created_at()
                                         ? expires_at() - FromWire(reserved().created_at())
                                         : absl::ZeroDuration();
  row.life = 2 * std::max(record_life, operation_->policy.retention);
  return row;
}

v1::Reply LiveExecution::ReplyOfRow(const RecordedReply& reply) const {
  v1::Reply of_row = reply.reply();
  if (operation_->policy.reply != MethodPolicy::Reply::kReference) return of_row;
  if (const std::optional<v1::Reference> set = reference(); set.has_value()) {
    AddRowReference(*set, of_row);
  }
  return of_row;
}

void LiveExecution::AdoptRowReference(v1::Reply& reply) {
  std::optional<v1::Reference> found = TakeRowReference(reply);
  if (!found.has_value()) return;
  MutexLock lock(mutex_);
  reference_ = std::move(found);
}

LedgerCommitPermit LiveExecution::MayCommit() const {
  LedgerCommitPermit permit;
  permit.log = GuardLog::SinkFor(operation_->log, LogEvent::kLedgerRowNotWritten);
  if (lost()) {
    permit.status =
        MakeErrorWithCode(Reason::kReservationLost, absl::StatusCode::kAborted,
                          "the lease of this attempt has expired: nothing may be committed");
  }
  return permit;
}

void LiveExecution::NoteCommitted(const RecordedReply& reply) {
  MutexLock lock(mutex_);
  committed_ = reply.reply();
}

std::optional<v1::Reply> LiveExecution::committed() const {
  MutexLock lock(mutex_);
  return committed_;
}

ParentOperation& LiveExecution::AsParent() const {
  std::call_once(parent_made_, [this] {
    const GuardOptions& options = operation_->options;
    parent_ = ParentOperation::Make(
        {options.downstream_secret.empty() ? options.name_space : options.downstream_secret,
         FromProto(reserve_request().record_key()), Uuid::Parse(record_id()).value_or(RecordId()),
         reserved().has_created_at() ? FromWire(reserved().created_at()) : absl::InfinitePast(),
         expires_at(), MayBeLost()});
  });
  return *parent_;
}

absl::StatusOr<std::string> LiveExecution::DownstreamKey(std::string_view label) const {
  return AsParent().KeyFor(label);
}

absl::Status LiveExecution::Attach(grpc::ClientContext& context, std::string_view label) {
  return AsParent().Attach(context, label);
}

absl::Status LiveExecution::Attach(grpc::ClientContext& context) {
  return AsParent().Attach(context);
}

}  // namespace idempotency::internal

#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_RECOVERY_HANDLER_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_RECOVERY_HANDLER_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency {

// An operation whose outcome is not known: an attempt died, or failed without
// saying what happened, under REQUIRE_RECOVERY. What a recovery handler is
// given to find out.
struct RecoveryCase {
  // As in the `idempotency-record` metadata. What effects are best kept under.
  std::string record_id;
  RecordKey record_key;
  // The attempt that recovers. Attempts before it may have had effects:
  // attempt - 1 was the last, and may have been a recovery itself.
  std::uint32_t attempt = 0;
  // What Execution::Checkpoint() stored last, "" if nothing.
  std::string checkpoint;
  // Those of the record: what its first reservation gave.
  std::map<std::string, std::string> labels;
  // When the record was first reserved, by the store's clock.
  absl::Time created_at;
  // Of the call that brought the recovery about, its fingerprint compared with
  // the record's; nullptr in the background. Valid until the handler returns.
  const google::protobuf::Message* request = nullptr;
  // The recovery's own, with Checkpoint() for what takes long and lost() for
  // when it took too long. Never nullptr from a guard.
  Execution* execution = nullptr;
};

// What a recovery handler found out.
class RecoveryDecision {
 public:
  enum class Kind { kComplete, kRelease, kLeaveUnknown };

  // The operation happened (or is done now): `reply` is recorded as its reply,
  // and sent to this caller and every later one. It must be of the method's
  // reply type.
  static RecoveryDecision CompleteWith(const google::protobuf::Message& reply) {
    v1::Reply recorded;
    reply.SerializePartialToString(recorded.mutable_body());
    return {Kind::kComplete, std::move(recorded), reply.GetTypeName()};
  }
  // The operation failed for good. Only a code that the method's policy
  // records; OK (which needs a reply) and any other is LeaveUnknown(), logged.
  static RecoveryDecision CompleteWith(const grpc::Status& failure) {
    if (failure.ok()) return LeaveUnknown();
    v1::Reply recorded;
    recorded.set_code(static_cast<int>(failure.error_code()));
    recorded.set_message(failure.error_message());
    recorded.set_details(failure.error_details());
    return {Kind::kComplete, std::move(recorded), ""};
  }
  // Nothing happened, and nothing can happen any more: the operation may run.
  // On a call, its own handler runs next, under the reservation that the
  // recovery held and as the same attempt; from the background the reservation
  // is released, and the next call runs.
  static RecoveryDecision Release() { return {Kind::kRelease, {}, ""}; }
  // It cannot be told. The caller gets OUTCOME_UNKNOWN; the next call, and the
  // background, try again.
  static RecoveryDecision LeaveUnknown() { return {Kind::kLeaveUnknown, {}, ""}; }

  Kind kind() const { return kind_; }
  const v1::Reply& reply() const { return reply_; }
  // The message's full name; "" for a failure.
  const std::string& reply_type() const { return reply_type_; }

 private:
  RecoveryDecision(Kind kind, v1::Reply reply, std::string reply_type)
      : kind_(kind), reply_(std::move(reply)), reply_type_(std::move(reply_type)) {}

  Kind kind_;
  v1::Reply reply_;
  std::string reply_type_;
};

// Finds out what became of an operation, and says so. Runs instead of the
// method's handler, on a thread of the guard's: it may block, and should be
// done within a few seconds, since the caller waits. It holds the operation's
// reservation, with heartbeats, so no other recovery and no handler of this
// record is granted beside it. What it throws is LeaveUnknown().
//
// It never runs for a fresh record, nor for one that was released, nor for one
// that is taken over under TAKE_OVER.
//
// "No effect yet" is no proof. The owner of the dead attempt may be only slow:
// cut off from the store, stopped, or waiting for a bank. It may still act after
// you looked. Release() only what can no longer happen: because the effect is
// bound to the record id or the attempt and you have taken its place (a row
// inserted under the record id, a fence that only lets a higher attempt pass),
// because the other side refuses it (a payment cancelled under its own key), or
// because the process is known to have ended. Otherwise LeaveUnknown().
using RecoveryHandler = std::function<RecoveryDecision(const RecoveryCase&)>;

// A decision about a method that replies with `Reply`, and cannot be given
// another method's reply.
template <typename Reply>
class TypedRecoveryDecision {
 public:
  static TypedRecoveryDecision CompleteWith(const Reply& reply) {
    return RecoveryDecision::CompleteWith(reply);
  }
  static TypedRecoveryDecision CompleteWith(const grpc::Status& failure) {
    return RecoveryDecision::CompleteWith(failure);
  }
  static TypedRecoveryDecision Release() { return RecoveryDecision::Release(); }
  static TypedRecoveryDecision LeaveUnknown() { return RecoveryDecision::LeaveUnknown(); }

  const RecoveryDecision& decision() const { return decision_; }

 private:
  // Implicit for the four above. NOLINTNEXTLINE(google-explicit-constructor)
  TypedRecoveryDecision(RecoveryDecision decision) : decision_(std::move(decision)) {}

  RecoveryDecision decision_;
};

// A RecoveryHandler in the types of its method. `request` is nullptr where
// RecoveryCase::request is.
template <typename Request, typename Reply>
RecoveryHandler TypedRecovery(
    std::function<TypedRecoveryDecision<Reply>(const RecoveryCase&, const Request* request)>
        handler) {
  return [handler = std::move(handler)](const RecoveryCase& recovery) {
    return handler(recovery, dynamic_cast<const Request*>(recovery.request)).decision();
  };
}

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_RECOVERY_HANDLER_H_

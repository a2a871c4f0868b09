#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_RECOVERY_HANDLER_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_RECOVERY_HANDLER_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "idempotency/v1/record.pb.h"

namespace idempotency {

// An operation whose outcome is unknown: under REQUIRE_RECOVERY an attempt ended without an
// answer, or failed with a code that does not show whether it had effects. The argument of a
// recovery handler.
struct RecoveryCase {
  // As in the `idempotency-record` metadata. The best identity under which to store effects.
  std::string record_id;
  RecordKey record_key;
  // The attempt that recovers. Attempts before it may have had effects:
  // attempt - 1 was the last, and may have been a recovery itself.
  std::uint32_t attempt = 0;
  // The last checkpoint (Execution::Checkpoint()); "" if there is none.
  std::string checkpoint;
  // The record's labels, set by its first reservation.
  std::map<std::string, std::string> labels;
  // When the record was first reserved, by the store's clock.
  absl::Time created_at;
  // The request of the call that started the recovery; its fingerprint has been compared with
  // the record's. nullptr in the background. Valid until the handler returns.
  const google::protobuf::Message* request = nullptr;
  // The full name of the request's type, in the background too: that of the method, or of the
  // request given to Begin (google.protobuf.Any for an OpaqueRequest). "" if it is unknown.
  std::string request_type;
  // The recovery's own execution: Checkpoint() for long recoveries, and lost() for one that
  // took too long. A guard never passes nullptr.
  Execution* execution = nullptr;
};

// The result of a recovery handler.
class RecoveryDecision {
 public:
  enum class Kind { kComplete, kRelease, kLeaveUnknown };

  // The operation happened (or the handler has done it now): `reply` is recorded as its reply,
  // and sent to this caller and every later one. It must be of the method's reply type.
  static RecoveryDecision CompleteWith(const google::protobuf::Message& reply) {
    v1::Reply recorded;
    recorded.set_body(reply.SerializePartialAsString());
    return {Kind::kComplete, std::move(recorded), std::string(reply.GetTypeName())};
  }
  // The operation failed permanently. Only a code that the method's policy records; OK (which
  // needs a reply) and any other code count as LeaveUnknown(), and are logged. Each byte of the
  // message that is not UTF-8 is recorded as '?'.
  static RecoveryDecision CompleteWith(const grpc::Status& failure) {
    if (failure.ok()) return LeaveUnknown();
    v1::Reply recorded;
    recorded.set_code(static_cast<int>(failure.error_code()));
    recorded.set_message(failure.error_message());
    recorded.set_details(failure.error_details());
    return {Kind::kComplete, std::move(recorded), ""};
  }
  // Nothing happened, and nothing can happen any more: the operation may run. In a call, the
  // call's own handler runs next, under the recovery's reservation and as the same attempt; in
  // the background the reservation is released, and the next call runs.
  static RecoveryDecision Release() { return {Kind::kRelease, {}, ""}; }
  // The outcome is still unknown. The caller gets OUTCOME_UNKNOWN; the next call, and the
  // background, try again.
  static RecoveryDecision LeaveUnknown() { return {Kind::kLeaveUnknown, {}, ""}; }
  // The same; the guard logs `fault`, which prevents each recovery of the method.
  static RecoveryDecision LeaveUnknown(std::string fault) {
    RecoveryDecision decision = LeaveUnknown();
    decision.fault_ = std::move(fault);
    return decision;
  }

  Kind kind() const { return kind_; }
  // "" unless LeaveUnknown() was given one.
  const std::string& fault() const { return fault_; }
  const v1::Reply& reply() const { return reply_; }
  // The message's full name; "" for a failure.
  const std::string& reply_type() const { return reply_type_; }

 private:
  RecoveryDecision(Kind kind, v1::Reply reply, std::string reply_type)
      : kind_(kind), reply_(std::move(reply)), reply_type_(std::move(reply_type)) {}

  Kind kind_;
  v1::Reply reply_;
  std::string reply_type_;
  std::string fault_;
};

// Finds out the outcome of an operation and returns it. Runs instead of the method's handler,
// on threads of the guard's, for several records at once: it must be thread-safe. It may block, and
// should return within a few seconds, since the caller waits. It holds the operation's reservation,
// with heartbeats, so that no other recovery and no handler of this record is granted at the same
// time. An exception counts as LeaveUnknown().
//
// It never runs for a new record, nor for one that was released, nor for one that is taken over
// under TAKE_OVER.
//
// "No effect yet" is no proof. The owner of the earlier attempt may only be slow: disconnected
// from the store, stopped, or waiting for a bank. It may still act after you looked. Release()
// only if the effect can no longer happen: because the effect is bound to the record id or the
// attempt and you have taken its place (a row inserted under the record id, a fence that only
// lets a higher attempt pass), because the other side refuses it (a payment cancelled under its
// own key), or because the process is known to have ended. Otherwise LeaveUnknown().
using RecoveryHandler = std::function<RecoveryDecision(const RecoveryCase&)>;

// A decision for a method that replies with `Reply`; it cannot hold another method's reply.
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
  // Implicit, for the four functions above. NOLINTNEXTLINE(google-explicit-constructor)
  TypedRecoveryDecision(RecoveryDecision decision) : decision_(std::move(decision)) {}

  RecoveryDecision decision_;
};

// A RecoveryHandler with the types of its method. `request` is nullptr in the background, as
// RecoveryCase::request is. For a method with another request type the handler is not called,
// neither for a call nor in the background: the outcome remains unknown, and the guard logs both
// types at each recovery. A request of that type without its generated code (a DynamicMessage) is
// copied.
template <typename Request, typename Reply>
RecoveryHandler TypedRecovery(
    std::function<TypedRecoveryDecision<Reply>(const RecoveryCase&, const Request* request)>
        handler) {
  return [handler = std::move(handler)](const RecoveryCase& recovery) {
    const std::string made_for(Request::descriptor()->full_name());
    const std::string type = recovery.request != nullptr
                                 ? std::string(recovery.request->GetTypeName())
                                 : recovery.request_type;
    if (!type.empty() && type != made_for) {
      return RecoveryDecision::LeaveUnknown(
          absl::StrCat("its handler is made for ", made_for, ", but the request is of type ", type,
                       ": give this method a handler of its own request type"));
    }
    const auto* const request = google::protobuf::DynamicCastToGenerated<Request>(recovery.request);
    if (request == nullptr && recovery.request != nullptr) {
      Request copy;
      if (!copy.ParsePartialFromString(recovery.request->SerializePartialAsString())) {
        return RecoveryDecision::LeaveUnknown(
            absl::StrCat("the request is not a ", made_for, " as this program defines it"));
      }
      return handler(recovery, &copy).decision();
    }
    return handler(recovery, request).decision();
  };
}

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_RECOVERY_HANDLER_H_

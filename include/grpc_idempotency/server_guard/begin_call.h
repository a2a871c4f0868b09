#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_BEGIN_CALL_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_BEGIN_CALL_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"

#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "grpc_idempotency/server_guard/recovery_handler.h"

namespace idempotency {

struct GuardOptions;

// The argument of ServerGuard::Begin: one piece of work that must not be done twice. Its
// namespace is the guard's. A value type.
//
//   BeginCall call{"inbox.deposit", topic, message.id()};
//   call.policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
struct BeginCall {
  // The kind of work: "billing.settle-invoice", "inbox.deposit". 1-512 bytes of UTF-8 without
  // control characters and without '/'. Every guarded gRPC method has a '/' in its name, so the
  // two kinds never share a record by accident.
  std::string operation;
  // The owner of the key, 1-255 bytes of UTF-8 without control characters: a tenant, a topic,
  // or one constant if there is one producer.
  std::string scope;
  // The key: the same each time the same work arrives. A message's id, an idempotency-key that
  // came with a call, "2026-11/invoice-17" for a job. 1-255 visible ASCII characters; a UUID is
  // compared in lower case.
  std::string key;
  // The members key, key_field, fingerprint_metadata, stream, fail_open, cancel_when_lost and
  // Reply::kReference are for methods of a server and keep their defaults. The consequence of
  // an unknown outcome must be chosen: here (on_unknown_outcome), with a recovery handler, or by
  // the guard's on_unknown_outcome or ledger.
  MethodPolicy policy = {};
  // Under REQUIRE_RECOVERY, which a recovery handler selects if the policy does not choose:
  // finds out the outcome of an attempt whose outcome is unknown, on a thread of the guard's,
  // before Begin answers; for several operations at once, so it must be thread-safe. It receives
  // the request. The guard keeps it for its own lifetime if GuardOptions::background_recovery is
  // on. Without a handler Begin returns OUTCOME_UNKNOWN.
  RecoveryHandler recovery = {};
  // The type of the reply message, if there is only one. Complete() then refuses another type
  // with INVALID_ARGUMENT, a recovery handler cannot complete with another type, and fields
  // marked REPLY_REDACT are not stored either when a recovery handler or the completion ledger
  // completes the operation. The message passed to Complete() is always checked for such fields.
  const google::protobuf::Descriptor* reply_type = nullptr;
  // For operators who look the record up; the record keeps those of its first reservation. Up
  // to 16, keys of 1-64 bytes and values of up to 256, UTF-8 without control characters: others
  // are refused with REQUEST_INVALID. Sanitise text from external sources, which may contain
  // any bytes.
  std::map<std::string, std::string> labels = {};
  // The caller's deadline. Begin waits for the verdict until then, and for
  // GuardOptions::verdict_timeout (plus the policy's max_wait) at most.
  SteadyTime deadline = kNever;
};

// A request that is not a protobuf message. Its fingerprint is that of a google.protobuf.Any
// with `type` as its type_url and `bytes` as its value, so the bytes are compared: two
// encodings of the same JSON value are two requests. See docs/explicit.md. The data that it
// points to must live while Begin runs.
struct OpaqueRequest {
  // The type of the bytes: "application/json", "orders.v2.Created"; may be empty. UTF-8 without
  // control characters.
  std::string_view type;
  std::string_view bytes;
};

// OK, or the fault: KEY_MISSING, KEY_INVALID, or REQUEST_INVALID, which names the part.
// `options` are the guard's.
absl::Status ValidateBeginCall(const BeginCall& call, const GuardOptions& options);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_BEGIN_CALL_H_

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

// What ServerGuard::Begin is asked for: one piece of work that must not be done
// twice. The namespace is the guard's. A value type.
//
//   BeginCall call{"inbox.deposit", topic, message.id()};
//   call.policy.on_lease_expiry = MethodPolicy::OnLeaseExpiry::kRequireRecovery;
struct BeginCall {
  // What is done: "billing.settle-invoice", "inbox.deposit". 1-512 bytes of
  // UTF-8 without control characters and without '/', which every guarded gRPC
  // method has in its name: so the two never share a record by accident.
  std::string operation;
  // Whose key it is, 1-255 bytes of UTF-8 without control characters: a tenant,
  // a topic, or the same word for all where there is one producer.
  std::string scope;
  // The same each time that the same work comes: a message's id, an
  // idempotency-key that came with a call, "2026-11/invoice-17" for a job.
  // 1-255 visible ASCII characters; a UUID is compared in lower case.
  std::string key;
  // Key, key_field, fingerprint_metadata, stream, fail_open, cancel_when_lost
  // and Reply::kReference are for methods of a server and keep their defaults.
  // What an unknown outcome leads to must be chosen: here (on_lease_expiry), with
  // a recovery handler, or by the guard's on_unknown_outcome or ledger.
  MethodPolicy policy = {};
  // Under REQUIRE_RECOVERY, which it chooses where the policy does not say more:
  // finds out what became of an attempt whose outcome is unknown, on a thread of
  // the guard's, before Begin answers. It is shown the request, and is kept as
  // long as the guard if GuardOptions::background_recovery is on. Without it Begin
  // answers OUTCOME_UNKNOWN.
  RecoveryHandler recovery = {};
  // Of the message that it completes with, where that is one type: a recovery
  // handler then cannot decide for another, and fields marked REPLY_REDACT are
  // not stored either when a recovery handler or the completion ledger completes
  // it. What Complete() is given is always looked through.
  const google::protobuf::Descriptor* reply_type = nullptr;
  // For people who look the record up; kept from its first reservation. Up to
  // 16, keys of 1-64 bytes and values of up to 256, UTF-8 without control
  // characters: others are refused with REQUEST_INVALID. Replace what comes from
  // elsewhere and may hold anything.
  std::map<std::string, std::string> labels = {};
  // The caller's. Begin waits for the verdict until then, and for
  // GuardOptions::verdict_timeout (on top of the policy's max_wait) at most.
  SteadyTime deadline = kNever;
};

// A request that is no protobuf message. Its fingerprint is that of a
// google.protobuf.Any with `type` as its type_url and `bytes` as its value, so
// it is the bytes that are compared: two spellings of one JSON are two requests.
// See docs/explicit.md. What it points to must live while Begin runs.
struct OpaqueRequest {
  // What the bytes are: "application/json", "orders.v2.Created"; may be empty.
  // UTF-8 without control characters.
  std::string_view type;
  std::string_view bytes;
};

// OK, or what cannot work: KEY_MISSING, KEY_INVALID, REQUEST_INVALID naming the
// part. `options` are the guard's.
absl::Status ValidateBeginCall(const BeginCall& call, const GuardOptions& options);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_BEGIN_CALL_H_

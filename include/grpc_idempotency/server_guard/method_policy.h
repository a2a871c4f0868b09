#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_POLICY_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_POLICY_H_

#include <grpcpp/support/status_code_enum.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "google/protobuf/descriptor.h"

#include "grpc_idempotency/limits.h"

namespace idempotency {

// The policy for one method. A value type. Most methods declare it in their proto
// (docs/policies.md). The members are those of options.proto, where on_unknown_outcome is
// `on_lease_expiry`.
struct MethodPolicy {
  enum class Key {
    kRequired,  // a call without a key is refused; its handler does not run
    kOptional,  // guarded if the call has a key
    kNone,      // passed through, not guarded
  };
  enum class InFlight {
    kReject,  // a concurrent duplicate gets IN_FLIGHT at once
    kWait,    // a duplicate waits up to max_wait for the running attempt's reply
  };
  // The consequence of an unknown outcome: the handler returned a code that is neither recorded
  // nor released, or threw, or the lease of its attempt expired.
  enum class OnUnknownOutcome {
    kTakeOver,         // a second execution is acceptable
    kRequireRecovery,  // nothing runs again until the outcome is known
  };

  enum class Reply {
    kFull,        // stored completely: a replay is the same, byte for byte
    kStatusOnly,  // code and message; a replay of OK is refused with REPLY_NOT_KEPT
    kReference,   // the handler's reference; a loader makes the replay of an OK
  };
  // For a server-streaming method.
  enum class Stream {
    kUnguarded,  // not guarded
    kHoldBack,   // sent once the handler has finished and everything is stored
    kPassOn,     // sent as it is written, stored up to stream_limit_bytes
  };

  Key key = Key::kRequired;
  InFlight in_flight = InFlight::kReject;
  // How long a concurrent duplicate waits: over 0, up to 60 s. Required with kWait, and refused
  // without it.
  absl::Duration max_wait = absl::ZeroDuration();
  // How long a reservation lasts without a heartbeat: 10 ms to 1 h. A crashed server blocks its
  // keys for this long.
  absl::Duration lease = limits::kDefaultLease;
  // How long heartbeats continue while the handler runs, from the grant: 10 ms to 24 h, not
  // less than the lease. Then the lease expires, and the execution is lost: a handler that
  // hangs must not hold its key forever.
  absl::Duration max_lease = limits::kDefaultMaxLease;
  // Cancel the call once its execution is lost: the handler's context is cancelled, and the client
  // gets CANCELLED.
  bool cancel_when_lost = false;
  // How long a record is kept, from its first reservation: 1 s to 366 days, not less than the
  // lease. The record of a UUIDv7 key is kept at least for the window of its namespace (24 h
  // unless configured).
  absl::Duration retention = limits::kDefaultRetention;
  // How long the reply's content is kept, from the first reservation: 1 s up to the retention.
  // Afterwards a replay of OK is refused with REPLY_NOT_KEPT, one of an error has code and
  // message. nullopt: as long as the record.
  std::optional<absl::Duration> reply_retention;
  // How long the key of an expired record is still refused (KEY_EXPIRED): 0 (not at all) to 366
  // days.
  absl::Duration tombstone = absl::ZeroDuration();
  // nullopt: not chosen here. Then a recovery handler decides, or
  // GuardOptions::on_unknown_outcome, or GuardOptions::ledger; a guard without any of them
  // refuses the method. There is no default: the owner of the method must decide on a second
  // execution, and on a key that stops at OUTCOME_UNKNOWN.
  std::optional<OnUnknownOutcome> on_unknown_outcome;
  // Handler codes that are recorded and replayed. Every other code that is not in `released` is
  // indefinite: the outcome is unknown. OK is always recorded; CANCELLED, DEADLINE_EXCEEDED,
  // UNAVAILABLE, UNKNOWN and UNIMPLEMENTED never can be: gRPC generates them itself.
  std::set<grpc::StatusCode> recorded = DefaultRecorded();
  // Codes with which the handler reports that nothing happened: the next attempt may run at
  // once, also under REQUIRE_RECOVERY. No code that gRPC generates (those above, and INTERNAL),
  // and no code that is recorded. Only for a handler that makes these codes itself: a code
  // passed on from another service proves nothing. (An error of another guard, and gRPC's own for a
  // reply over a receive limit, do not count.)
  std::set<grpc::StatusCode> released;
  // The handler may start before its reservation is durable at idempotencyd: one wait for its
  // disk less. A crash or a failover of the store may then lose the reservation; two attempts may
  // run at the same time, both of them as attempt 1, and the ledger's key lets one commit. Refused
  // unless GuardOptions::ledger decides about unknown outcomes (no on_unknown_outcome, no recovery
  // handler). The handler commits every outcome with Execution::Commit, also refusals
  // (Execution::certainly_first); one that is not in the ledger is not recorded:
  // OUTCOME_NOT_RECORDED.
  bool relaxed_reservation = false;
  // Run the handler unguarded when there is no verdict: no answer arrived (STORE_UNAVAILABLE),
  // or the store has none. Never when the service refuses the call, or refuses this server (its
  // credentials, for example), never for a guard that is being closed, and never once the caller's
  // deadline has passed, also while the call waits for another attempt. A call of
  // the callback API that its caller has cancelled before runs: gRPC reports that only to a
  // handler. Promise 6 of the README does not hold for this method. Each such call is logged and
  // counted (ServerGuard::calls_failed_open), and may be a second execution. A reservation that is
  // granted to it later is left to its lease (docs/policies.md).
  bool fail_open = false;
  Reply reply = Reply::kFull;
  Stream stream = Stream::kUnguarded;
  // The maximum size of a captured stream: 1 byte to 8 MiB. Each message counts 96 bytes more than
  // its size, so that the limit also bounds memory: a held-back stream takes about twice as much,
  // one that is passed on about as much.
  std::size_t stream_limit_bytes = limits::kDefaultStreamBytes;
  // The request's field that may carry the key, in addition to the metadata: a singular string
  // of the request or, with dots, of a message nested in it. "": no field.
  std::string key_field;
  // Metadata entries that belong to the request, in lower case: a call with another value is
  // another request.
  std::vector<std::string> fingerprint_metadata;

  // How long a concurrent duplicate waits: max_wait with kWait, otherwise 0.
  absl::Duration WaitInFlight() const {
    return in_flight == InFlight::kWait ? max_wait : absl::ZeroDuration();
  }

  // OK, INVALID_ARGUMENT, NOT_FOUND, ALREADY_EXISTS, FAILED_PRECONDITION, OUT_OF_RANGE,
  // PERMISSION_DENIED: the codes that a deterministic handler returns for the same request each
  // time.
  static std::set<grpc::StatusCode> DefaultRecorded();
  // The policy of a method without any option: kNone for streaming methods and for
  // NO_SIDE_EFFECTS and IDEMPOTENT ones (protobuf's idempotency_level), kRequired for every
  // other.
  static MethodPolicy DefaultFor(const google::protobuf::MethodDescriptor& method);
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_METHOD_POLICY_H_

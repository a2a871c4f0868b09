#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_OPTIONS_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_OPTIONS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/ledger/completion_ledger.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/log_sink.h"
#include "grpc_idempotency/server_guard/guard_hooks.h"
#include "grpc_idempotency/server_guard/guard_threads.h"
#include "grpc_idempotency/server_guard/guard_tracer.h"
#include "grpc_idempotency/server_guard/method_config.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "grpc_idempotency/server_guard/replay_cache_options.h"
#include "grpc_idempotency/server_guard/scope.h"

namespace idempotency {

// The options of a guard, which ServerGuard::Create copies. Only `name_space` is required; a server
// without mutual TLS also needs a `scope`. A value type.
struct GuardOptions {
  // --- Identity ---

  // The namespace of the guard's records at idempotencyd. Required: 1-64 characters of a-z, 0-9,
  // '.', '_' and '-'.
  std::string name_space;

  // Determines the owner of a call's key. Required for a server without mutual TLS;
  // grpc_idempotency/server_guard/scope.h has ready-made functions. Empty: PeerIdentityScope(),
  // whose scope changes with any name in the certificate. Nothing is assumed without TLS: calls
  // from peers without a verified identity fail with UNAUTHENTICATED.
  ScopeFunction scope;

  // Secret for deriving downstream keys: the keys of calls that handlers make
  // (Execution::Attach). The same on every replica of a service; 16 bytes or more. Empty: the
  // namespace is used. An attacker who knows a record id and a label can then compute the key
  // of that step, and can use it first if the called service accepts the attacker as this
  // service (the same scope). After a change, operations that are resumed repeat their calls
  // under new keys: change it when no operation is open.
  std::string downstream_secret;

  // --- Methods and requests ---

  // The settings of single methods, by full method name ("/payments.v1.Payments/Charge").
  // Install() refuses the name of a method that no protected service has.
  //   options.methods["/payments.v1.Payments/Charge"].adjust = [&](MethodPolicy& policy) {
  //     policy.lease = lease_from_flags;
  //   };
  std::map<std::string, MethodConfig> methods;

  // The algorithms for the fingerprint of every request, which is compared with its record's.
  // One, or two during the rollout of a new version: see docs/fingerprint.md.
  std::vector<FingerprintAlgorithm> fingerprint_algorithms = {FingerprintAlgorithm::V1()};

  // The maximum size of a stored reply: 1 byte to 8 MiB. A larger one is completed without its
  // content.
  std::size_t max_reply_bytes = limits::kMaxReplyBytes;

  // --- Unknown outcomes ---

  // The consequence of an unknown outcome, for every method and every BeginCall whose own
  // policy does not choose one (MethodPolicy::on_unknown_outcome) and that has no recovery
  // handler. nullopt: each of them chooses, or there is a `ledger`; otherwise Install() and
  // Begin() refuse. See docs/policies.md.
  std::optional<MethodPolicy::OnUnknownOutcome> on_unknown_outcome;

  // The application's own database, in which handlers commit their reply together with its
  // effects (Execution::RecordInTransaction): exactly-once effects. The guard queries it before
  // an attempt after the first runs, and after RecordInTransaction before an outcome is
  // recorded or released; while it cannot be reached, such attempts do not run. If no other
  // choice is made, it decides the consequence of an unknown outcome: an operation that it
  // contains is replayed, any other runs again. That is exactly once for handlers that commit
  // all of their effects with RecordInTransaction, and for no others: give every other method a
  // choice of its own.
  std::shared_ptr<CompletionLedger> ledger;

  // Runs recovery handlers also without a call, for records whose outcome this guard itself
  // left unknown, with growing pauses (1 s to 5 min) until they are settled. It does not find
  // the unknown outcomes of other processes, nor of this process before a restart: those wait
  // for the next call with their key.
  bool background_recovery = false;

  // The maximum number of such records, at least 1 with background_recovery; further ones wait for
  // their next call. 1,000: about 1 MB.
  std::size_t max_background_recoveries = 1000;

  // --- The connection to idempotencyd ---

  // The options of the connection to idempotencyd, if the guard is created with a channel.
  ConnectionOptions connection;

  // How long a call waits for idempotencyd's verdict, in addition to the policy's max_wait,
  // before it fails with STORE_UNAVAILABLE: over 0 and finite. Less if the call's own deadline is
  // earlier. 2 s: long enough for a failover of the daemon behind a load balancer, short enough for
  // a waiting person. It applies to calls that were sent to a daemon, or that wait for a connection
  // in progress: once every daemon has refused the connection, calls fail at once until one
  // accepts.
  absl::Duration verdict_timeout = absl::Seconds(2);

  // How long the guard withholds the reply until idempotencyd acknowledges its recording: over 0
  // and finite. After that the caller gets OUTCOME_NOT_RECORDED (the recording goes on). 5 s:
  // longer than verdict_timeout, because the operation has run and its retry would find it in
  // flight.
  absl::Duration recording_timeout = absl::Seconds(5);

  // How long the guard's destructor waits for recordings that the store has not acknowledged: 0 or
  // more, and finite. 30 s: the default lease, after which the store treats them as lost in any
  // case.
  absl::Duration closing_timeout = absl::Seconds(30);

  // The guard's cache of completed operations; capacity 0 turns it off.
  ReplayCacheOptions replay_cache;

  // --- Threads and observers ---

  // The maximum number of the guard's threads, for each kind of application code.
  GuardThreads threads;

  // Callbacks for the guard's events.
  GuardHooks hooks;

  // Receives a span for the admission and for the recording of each call of a sampled trace.
  // nullptr: the guard makes no spans, and the daemon's span of a reservation is a child of the
  // caller's.
  std::shared_ptr<GuardTracer> tracer;

  // The log of the guard and of its connection to idempotencyd (unless `connection` has its own
  // `log`); empty: spdlog's default logger. For events that calls can cause, the guard writes
  // at most one line a second for each kind of event and method, with the number of omitted
  // lines. The connection writes one line for each change of its state.
  LogSink log;
};

// OK, or INVALID_ARGUMENT, whose message names the invalid option.
absl::Status ValidateGuardOptions(const GuardOptions& options);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_OPTIONS_H_

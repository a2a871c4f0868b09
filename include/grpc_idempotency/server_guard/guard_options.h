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
#include "grpc_idempotency/server_guard/method_config.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "grpc_idempotency/server_guard/replay_cache_options.h"
#include "grpc_idempotency/server_guard/scope.h"

namespace idempotency {

struct GuardOptions {
  // Whose records these are at idempotencyd. Required.
  std::string name_space;

  // Whose key a call carries. Required for a server without mutual TLS; see
  // grpc_idempotency/server_guard/scope.h for the shipped ones. Left empty it is
  // PeerIdentityScope(): without TLS nothing is assumed, and calls from peers
  // without a verified identity fail with UNAUTHENTICATED.
  ScopeFunction scope;

  // What an unknown outcome leads to, for every method and every BeginCall whose
  // own policy does not say it (MethodPolicy::on_lease_expiry) and that has no
  // recovery handler. nullopt: each of them says it, or there is a `ledger`;
  // otherwise Install() and Begin() refuse. See docs/policies.md.
  std::optional<MethodPolicy::OnLeaseExpiry> on_unknown_outcome;

  // The settings of single methods, by full method name ("/payments.v1.Payments/Charge").
  // Install() refuses the name of a method that no protected service has.
  //   options.methods["/payments.v1.Payments/Charge"].adjust = [&](MethodPolicy& policy) {
  //     policy.lease = lease_from_flags;
  //   };
  std::map<std::string, MethodConfig> methods;

  // What is computed of every request and compared with what its record holds.
  // One, or two while a new version rolls out: see docs/fingerprint.md.
  std::vector<FingerprintAlgorithm> fingerprint_algorithms = {FingerprintAlgorithm::V1()};

  // Keys the keys of calls that handlers make (Execution::Attach). The same on
  // every replica of a service; 16 bytes or more. Left empty it is the
  // namespace: then whoever knows a record id and a label can tell the key of
  // that step, and, if the callee takes him for this service (the same scope),
  // use it first. A change while operations are open makes those that are
  // resumed call again under new keys: change it when none are.
  std::string downstream_secret;

  // Where the server listens to the guard.
  GuardHooks hooks;

  // Where the log lines go of the guard and of its connection to idempotencyd
  // (unless `connection` has a `log` of its own); empty: spdlog's default logger. Of
  // what calls can cause, one line a second is written for each kind of event and
  // method, with the number of those that were left out. The connection writes one for
  // each change of its state.
  LogSink log;

  // How many threads of its own the guard uses at most, for each kind of the
  // application's code.
  GuardThreads threads;

  // How long a call may wait for idempotencyd's verdict, on top of the
  // policy's max_wait, before it fails with STORE_UNAVAILABLE. Less if the
  // call's own deadline is nearer. 2 s: long enough for a failover of the
  // daemon behind a load balancer, short enough for a person waiting. It is for
  // calls that were sent to a daemon, or wait for a connection that is being made:
  // once every daemon has refused it, calls fail at once until one accepts.
  absl::Duration verdict_timeout = absl::Seconds(2);

  // How long the reply is held back for idempotencyd to acknowledge it, before
  // the caller is told OUTCOME_NOT_RECORDED (the recording goes on).
  absl::Duration recording_timeout = absl::Seconds(5);

  // A reply over this is completed without its content.
  std::size_t max_reply_bytes = limits::kMaxReplyBytes;

  // How idempotencyd is talked to, where the guard is made over a channel.
  ConnectionOptions connection;

  // What this guard remembers of completed operations; capacity 0 turns it off.
  ReplayCacheOptions replay_cache;
  // Runs recovery handlers also without a call, for records whose outcome this
  // guard itself left unknown, with growing pauses (1 s to 5 min) until they are
  // settled. It does not find what died with another process, or with this one:
  // that waits for the next call of its key.
  bool background_recovery = false;
  // How many such records it remembers; further ones wait for their next call.
  // 1,000: about 1 MB.
  std::size_t max_background_recoveries = 1000;
  // The application's own database, where handlers commit their reply together
  // with its effects (Execution::RecordInTransaction): exactly-once effects. Asked before
  // an attempt after the first runs, and after RecordInTransaction before anything is
  // recorded or released; while it cannot be reached, such attempts do not run.
  // Where nothing else is chosen it decides what an unknown outcome leads to:
  // what it has is replayed, anything else runs again. That is exactly once for
  // handlers that commit all of their effects with RecordInTransaction, and for no others:
  // a method that does not is given a choice of its own.
  std::shared_ptr<CompletionLedger> ledger;

  // How long the guard's destructor waits for recordings that the store has
  // not acknowledged.
  absl::Duration closing_timeout = absl::Seconds(30);
};

// OK, or INVALID_ARGUMENT naming the option that cannot work.
absl::Status ValidateGuardOptions(const GuardOptions& options);

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_GUARD_OPTIONS_H_

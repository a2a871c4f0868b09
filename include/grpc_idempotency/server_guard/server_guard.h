#ifndef GRPC_IDEMPOTENCY_SERVER_GUARD_SERVER_GUARD_H_
#define GRPC_IDEMPOTENCY_SERVER_GUARD_SERVER_GUARD_H_

#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/server_interceptor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

#include "grpc_idempotency/client/connection.h"
#include "grpc_idempotency/server_guard/begin_call.h"
#include "grpc_idempotency/server_guard/begun_operation.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "grpc_idempotency/server_guard/replay_cache_counters.h"

namespace idempotency {

// Makes the methods of a gRPC server idempotent. A call without a key is refused. A retried
// call gets the first reply, byte for byte, and its handler does not run again.
//
//   auto guard = ServerGuard::Create(channel_to_idempotencyd, options);
//   if (!guard.ok()) return guard.status();
//   grpc::ServerBuilder builder;
//   auto status = (*guard)->Protect<payments::v1::Payments>(builder, &payments);
//   if (!status.ok()) return status;
//   status = (*guard)->Install(builder, std::move(my_other_interceptors));
//   if (!status.ok()) return status;
//   auto server = builder.BuildAndStart();
//   ...
//   (*guard)->Close();
//   server->Shutdown();
//
// For work that does not arrive through a guarded method (a completion-queue server, a queue, a
// job) there is Begin, which needs neither Protect nor Install:
//
//   BeginCall call{"inbox.deposit", topic, message.id()};
//   call.policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
//   auto begun = guard->Begin(call, message);
//
// A guard is for one server, and a server has one guard. Guards in the same namespace share keys,
// in one process or in several.
//
// The guard and the protected services must outlive the server. One thread calls Protect and
// Install, before BuildAndStart; all other methods are thread-safe.
class ServerGuard {
 public:
  using InterceptorFactories =
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;
  // Receives the result of an asynchronous Begin.
  using BeginDone = std::function<void(absl::StatusOr<BegunOperation>)>;

  // INVALID_ARGUMENT for a null channel and for invalid options, whose message names the option;
  // FAILED_PRECONDITION for a gRPC that the guard is not built for; RESOURCE_EXHAUSTED for a thread
  // that cannot be started. Does not wait for idempotencyd (WaitUntilReady does), but starts to
  // connect, and logs one line if it cannot.
  static absl::StatusOr<std::unique_ptr<ServerGuard>> Create(
      std::shared_ptr<grpc::Channel> idempotencyd, GuardOptions options);
  // The same over any Connection, which must not be null either.
  static absl::StatusOr<std::unique_ptr<ServerGuard>> Create(std::unique_ptr<Connection> connection,
                                                             GuardOptions options);

  // Close(), then waits for the application's code that runs on the guard's threads (lookups,
  // recovery handlers, loaders; no further ones start), and then for outstanding recordings
  // (GuardOptions::closing_timeout at most). Every Begin has been answered by then. Settle before
  // it what has begun.
  virtual ~ServerGuard() = default;

  // Registers `service` in guarded form; replaces builder.RegisterService(service). It guards
  // unary methods of the sync and of the callback API, and server-streaming ones whose policy
  // sets `stream`; it passes other streaming methods through. In the callback API a handler must
  // not touch its response and its context between Finish and OnDone: gRPC's rule, and here that
  // time includes the recording.
  //   FAILED_PRECONDITION  the service has another kind of method (completion-queue, raw,
  //                        streamed); the message names it (for generic methods the service,
  //                        since they cannot be distinguished). Or its methods are not those of
  //                        ServiceClass, or were compiled without RTTI, or are protected already
  //   INVALID_ARGUMENT     a policy does not fit its method
  // In both cases nothing is registered.
  template <typename ServiceClass>
  [[nodiscard]] absl::Status Protect(grpc::ServerBuilder& builder, grpc::Service* service) {
    return ProtectService(builder, ServiceClass::service_full_name(), /*host=*/"", service);
  }

  // The same; replaces builder.RegisterService(host, service): for callers whose `:authority`
  // is exactly `host`. The host is part of the operation
  // ("api.example.com/payments.v1.Payments/Charge"), so the same path on two hosts shares no
  // keys; policies are by path and apply to every host. INVALID_ARGUMENT for a host that is
  // empty, too long or contains a '/'.
  template <typename ServiceClass>
  [[nodiscard]] absl::Status Protect(grpc::ServerBuilder& builder, const std::string& host,
                                     grpc::Service* service) {
    if (host.empty()) return absl::InvalidArgumentError("the host is empty");
    return ProtectService(builder, ServiceClass::service_full_name(), host, service);
  }

  // Installs the capturing interceptor as the first, and the application's own after it. Call
  // it once, after every Protect. Do not call SetInterceptorCreators: before Install, it is
  // refused; afterwards, guarded calls would fail (they never run unrecorded).
  //
  // The interceptors in `others` run for a guarded reply on the handler's own thread in the sync
  // API, as without the guard, and may block there. In the callback API the store's answer arrives
  // after the handler's Finish: they run for the status, and for the messages that are sent with
  // it, on one of GuardOptions::threads.replies; with an embedded service, for one reply at a time,
  // perhaps on a thread of the service's. Where no answer of the store's is waited for (what a
  // handler sends before its status, the rest of a replayed stream, the refusal of a call that
  // waited too long for a thread), they run on the thread that sends it, the handler's or gRPC's.
  //
  // The guard records the handler's reply. It does not record the changes that the interceptors
  // in `others` make (ModifySendMessage, ModifySendStatus, metadata): they run for replays as
  // for first replies, and make their changes each time. On a replay the bytes of the message
  // that GetSendMessage() points to are fixed: to change them, pass another message to
  // ModifySendMessage. GetSendMessage() is nullptr when the guard withholds a reply. Messages
  // of a guarded stream are sent after every interceptor has seen them: there is no
  // POST_SEND_MESSAGE.
  //
  // FAILED_PRECONDITION if no service is protected, or if the builder has interceptors already,
  // those of another guard included; and, with a message that lists all names, for guarded methods
  // without a choice for unknown outcomes (MethodPolicy::on_unknown_outcome), and for names in
  // GuardOptions that no protected service has. Then no guarded method of the server runs.
  [[nodiscard]] absl::Status Install(grpc::ServerBuilder& builder,
                                     InterceptorFactories others = {}) {
    return InstallInterceptors(builder, std::move(others));
  }

  // Requests permission to run a piece of work. Blocks until the verdict, at most for
  // GuardOptions::verdict_timeout plus the policy's max_wait; do not call it on a thread of the
  // guard's or of gRPC's. Returns an operation that runs or that is replayed. Otherwise it
  // returns an error, and nothing was done:
  //   KEY_MISSING, KEY_INVALID, REQUEST_INVALID   `call` is invalid
  //   IN_FLIGHT (with a retry delay)   another attempt is running
  //   KEY_REUSED        the key was used with a different request
  //   KEY_EXPIRED       the key is too old: no record shows whether its work ran
  //   OUTCOME_UNKNOWN   under REQUIRE_RECOVERY: the outcome of an attempt is unknown
  //   REPLY_NOT_KEPT    the work is done, but its reply was not kept
  //   STORE_UNAVAILABLE (with a retry delay)   the guard got no verdict, or idempotencyd
  //                     refuses the guard itself
  // and any other status of idempotencyd (OVERLOADED, ...). Read them with ReasonOf() and
  // DetailsOf() of grpc_idempotency/errors.h.
  absl::StatusOr<BegunOperation> Begin(const BeginCall& call,
                                       const google::protobuf::Message& request);
  absl::StatusOr<BegunOperation> Begin(const BeginCall& call, const OpaqueRequest& request);

  // The same without blocking. `done` is called once, on a thread of the guard's or inside
  // Begin, and must not block; an exception from it is logged and ignored. `request` need not
  // outlive the call; the factory of a dynamic message must live until `done` is called.
  void Begin(const BeginCall& call, const google::protobuf::Message& request, BeginDone done);
  void Begin(const BeginCall& call, const OpaqueRequest& request, BeginDone done);

  // Blocks until idempotencyd serves this guard: it can be reached, it grants the guard access
  // to its namespace, and it can read its store. For a server that must not accept calls
  // earlier (without a connection, guarded calls fail with STORE_UNAVAILABLE at once, or fail
  // open), or for its readiness check.
  //   OK                 idempotencyd serves this guard
  //   STORE_UNAVAILABLE  not within `timeout`
  // If idempotencyd refuses the guard, its status is returned at once:
  //   UNAUTHENTICATED    the guard's certificate or token is no identity's, or has expired
  //   PERMISSION_DENIED  no rule permits the guard's identity to read in its namespace
  //   INVALID_ARGUMENT   idempotencyd does not accept the request, for example its namespace
  // Do not call it on a thread of the guard's or of gRPC's.
  virtual absl::Status WaitUntilReady(absl::Duration timeout) = 0;

  // Fails calls that wait for a verdict and refuses new ones, with STORE_UNAVAILABLE, so that
  // they do not delay Server::Shutdown. Running handlers are still recorded. Safe to call
  // twice.
  virtual void Close() = 0;

  // All zero if GuardOptions::replay_cache is off.
  virtual ReplayCacheCounters replay_cache() const = 0;
  // The number of calls that ran unguarded because the guard got no verdict
  // (MethodPolicy::fail_open), since the guard was created.
  virtual std::uint64_t calls_failed_open() const = 0;

 protected:
  // An empty `host` stands for every host that has no service of its own.
  virtual absl::Status ProtectService(grpc::ServerBuilder& builder, const char* service_name,
                                      const std::string& host, grpc::Service* service) = 0;
  virtual absl::Status InstallInterceptors(grpc::ServerBuilder& builder,
                                           InterceptorFactories others) = 0;
  virtual void BeginOperation(const BeginCall& call, const google::protobuf::Message& request,
                              BeginDone done) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_SERVER_GUARD_H_

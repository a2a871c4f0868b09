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

// Makes the methods of a gRPC server idempotent: a call without a key is
// refused, a retried one gets the first reply, byte for byte, and its handler
// does not run again.
//
//   auto guard = ServerGuard::Create(channel_to_idempotencyd, options).value();
//   grpc::ServerBuilder builder;
//   guard->Protect<payments::v1::Payments>(builder, &payments);
//   guard->Install(builder, std::move(my_other_interceptors));
//   auto server = builder.BuildAndStart();
//   ...
//   guard->Close();
//   server->Shutdown();
//
// For work that comes some other way (a completion-queue server, a queue, a
// job) there is Begin, which needs neither Protect nor Install:
//
//   BeginCall call{"inbox.deposit", topic, message.id()};
//   call.policy.on_lease_expiry = MethodPolicy::OnLeaseExpiry::kRequireRecovery;
//   auto begun = guard->Begin(call, message);
//
// The guard and the protected services must outlive the server. Protect and
// Install are called before BuildAndStart by one thread; everything else is
// thread-safe.
class ServerGuard {
 public:
  using InterceptorFactories =
      std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>;

  // INVALID_ARGUMENT for options that cannot work, naming the option. Does not
  // wait for idempotencyd (WaitUntilReady does), but begins to connect: where it
  // cannot, one line of the log says so.
  static absl::StatusOr<std::unique_ptr<ServerGuard>> Create(
      std::shared_ptr<grpc::Channel> idempotencyd, GuardOptions options);
  // The same over any Connection.
  static absl::StatusOr<std::unique_ptr<ServerGuard>> Create(std::unique_ptr<Connection> connection,
                                                             GuardOptions options);

  // Close(), then waits for outstanding recordings, for
  // GuardOptions::closing_timeout at most.
  virtual ~ServerGuard() = default;

  // Registers `service` in guarded form, instead of
  // builder.RegisterService(service). Unary methods of the sync and of the
  // callback API are guarded, and server-streaming ones whose policy sets
  // `stream`; other streaming methods are handed through. Anything
  // else (completion-queue, raw, streamed methods) is refused with
  // FAILED_PRECONDITION naming the method (for generic ones the service: they
  // cannot be told apart), a policy that does not fit its method with
  // INVALID_ARGUMENT, and nothing is registered.
  template <typename ServiceClass>
  absl::Status Protect(grpc::ServerBuilder& builder, grpc::Service* service) {
    return ProtectService(builder, ServiceClass::service_full_name(), /*host=*/"", service);
  }

  // The same instead of builder.RegisterService(host, service): for callers
  // whose `:authority` is exactly `host`. The host is part of the operation
  // ("api.example.com/payments.v1.Payments/Charge"), so the same path on two
  // hosts shares no keys; policies are by path and hold for every host.
  // INVALID_ARGUMENT for a host that is empty, too long or has a '/'.
  template <typename ServiceClass>
  absl::Status Protect(grpc::ServerBuilder& builder, const std::string& host,
                       grpc::Service* service) {
    if (host.empty()) return absl::InvalidArgumentError("the host is empty");
    return ProtectService(builder, ServiceClass::service_full_name(), host, service);
  }

  // Installs the capturing interceptor, first in line, and the caller's own
  // after it. Once per server, after every Protect. Do not call
  // SetInterceptorCreators afterwards: guarded calls would fail (they never
  // run unrecorded).
  //
  // What is recorded is the handler's reply. What the interceptors in `others`
  // make of it (ModifySendMessage, ModifySendStatus, metadata) is not: they run
  // for replays as for first replies, and make it anew each time. On a replay
  // the bytes of the message that GetSendMessage() points to are fixed: to
  // change them, give another one to ModifySendMessage. GetSendMessage() is
  // nullptr when the guard withholds a reply. Messages of a guarded stream leave
  // after every interceptor has seen them: there is no POST_SEND_MESSAGE.
  //
  // FAILED_PRECONDITION, with all of their names, for guarded methods that do not
  // choose what an unknown outcome leads to (MethodPolicy::on_lease_expiry); for
  // names in GuardOptions that no protected service has. Then no guarded method
  // of the server runs.
  absl::Status Install(grpc::ServerBuilder& builder, InterceptorFactories others = {}) {
    return InstallInterceptors(builder, std::move(others));
  }

  // Asks whether a piece of work may run. Blocks until the verdict, for
  // GuardOptions::verdict_timeout and the policy's max_wait at most; not on a
  // thread of the guard's or of gRPC's. Answers what runs, what is replayed, or
  // why not, with nothing done:
  //   KEY_MISSING, KEY_INVALID, REQUEST_INVALID   `call` cannot work
  //   IN_FLIGHT (with a retry delay)   another attempt is running
  //   KEY_REUSED        the key was used with a different request
  //   KEY_EXPIRED       the key is too old to tell whether its work ran
  //   OUTCOME_UNKNOWN   under REQUIRE_RECOVERY it is unknown what an attempt did
  //   REPLY_NOT_KEPT    it is done, but its reply was not kept
  //   STORE_UNAVAILABLE (with a retry delay)   no verdict could be had
  // and what else idempotencyd answers (OVERLOADED, ...). ReasonOf() and
  // DetailsOf() of grpc_idempotency/errors.h read them.
  absl::StatusOr<BegunOperation> Begin(const BeginCall& call,
                                       const google::protobuf::Message& request);
  absl::StatusOr<BegunOperation> Begin(const BeginCall& call, const OpaqueRequest& request);

  // The same without blocking. `done` is called once, on a thread of the
  // guard's or inside Begin, and must not block; what it throws there is logged
  // and ends there. `request` is not needed afterwards.
  using Begun = std::function<void(absl::StatusOr<BegunOperation>)>;
  void Begin(const BeginCall& call, const google::protobuf::Message& request, Begun done);
  void Begin(const BeginCall& call, const OpaqueRequest& request, Begun done);

  // Blocks until idempotencyd answers this guard: it can be reached, it gives the
  // guard access to its namespace, and it reads its store. For a server that
  // should not take calls before (without it guarded calls are answered
  // STORE_UNAVAILABLE at once, or fail open, for as long as there is no
  // connection), or for its readiness check. Answers
  //   OK                 it does
  //   STORE_UNAVAILABLE  not within `timeout`
  //   any other          it refuses the guard, at once: PERMISSION_DENIED, ...
  // Not on a thread of the guard's or of gRPC's.
  virtual absl::Status WaitUntilReady(absl::Duration timeout) = 0;

  // Fails calls that wait for a verdict and refuses new ones, with
  // STORE_UNAVAILABLE, so that Server::Shutdown is not held up. Handlers that
  // run are still recorded. Safe to call twice.
  virtual void Close() = 0;

  // Zeros while GuardOptions::replay_cache is off.
  virtual ReplayCacheCounters replay_cache() const = 0;
  // How many calls ran unguarded because no verdict could be had
  // (MethodPolicy::fail_open), since the guard was made.
  virtual std::uint64_t calls_failed_open() const = 0;

 protected:
  // An empty `host` is every host that has no service of its own.
  virtual absl::Status ProtectService(grpc::ServerBuilder& builder, const char* service_name,
                                      const std::string& host, grpc::Service* service) = 0;
  virtual absl::Status InstallInterceptors(grpc::ServerBuilder& builder,
                                           InterceptorFactories others) = 0;
  virtual void BeginOperation(const BeginCall& call, const google::protobuf::Message& request,
                              Begun done) = 0;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_SERVER_GUARD_SERVER_GUARD_H_

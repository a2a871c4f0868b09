#include "grpc_idempotency/server_guard/server_guard.h"

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/any.pb.h"

#include "core/clock.h"
#include "core/utf8.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/admission/background_recovery.h"
#include "interceptors/server/admission/operation_admission.h"
#include "interceptors/server/call/capturing_interceptor.h"
#include "interceptors/server/call/other_interceptors.h"
#include "interceptors/server/call/protected_methods.h"
#include "interceptors/server/call/stream_writer_interceptor.h"
#include "interceptors/server/connection/replay_cache.h"
#include "interceptors/server/grpc_internals.h"
#include "interceptors/server/log/guard_log.h"
#include "interceptors/server/policy/policy_rules.h"
#include "interceptors/server/policy/resolved_policy.h"
#include "interceptors/server/policy/unknown_outcome.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/reservation/reservation_client.h"
#include "interceptors/server/threads/awaited.h"

namespace idempotency {
namespace internal {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

class Guard final : public ServerGuard {
 public:
  // `cache` is nullptr while it is off.
  Guard(std::unique_ptr<Connection> connection, std::shared_ptr<ReplayCache> cache,
        GuardOptions options)
      : options_(std::move(options)),
        cache_(std::move(cache)),
        log_(std::make_shared<GuardLog>(options_.log)),
        pools_(options_.threads),
        others_(pools_.replies),
        reservations_(std::move(connection), options_.recording_timeout, options_.closing_timeout,
                      cache_, std::make_unique<TimerThread>(), ReserveLimits(), log_),
        methods_(options_, log_) {
    if (!options_.background_recovery) return;
    background_recovery_ =
        BackgroundRecovery::Make(reservations_.scheduler(), options_.max_background_recoveries,
                                 std::max(1, options_.threads.recovery / 2));
  }

  ~Guard() override {
    Close();
    // The application's code may still run there, with references to the other members.
    pools_.Stop();
  }

  void Close() override {
    if (background_recovery_ != nullptr) background_recovery_->Stop();
    reservations_.Close();
  }

  absl::Status WaitUntilReady(absl::Duration timeout) override {
    return Await<absl::Status>([&](StoreProbe::Done done) {
      reservations_.Probe(options_.name_space, After(reservations_.Now(), timeout),
                          std::move(done));
    });
  }

  // The connection logs a failure.
  void BeginToConnect() {
    reservations_.Probe(options_.name_space, After(reservations_.Now(), kTryTimeout),
                        [](const absl::Status&) {});
  }

  ReplayCacheCounters replay_cache() const override {
    return cache_ == nullptr ? ReplayCacheCounters() : cache_->counters();
  }

  std::uint64_t calls_failed_open() const override { return methods_.calls_failed_open(); }

 protected:
  absl::Status ProtectService(grpc::ServerBuilder& builder, const char* service_name,
                              const std::string& host, grpc::Service* service) override;
  absl::Status InstallInterceptors(grpc::ServerBuilder& builder,
                                   InterceptorFactories others) override;
  void BeginOperation(const BeginCall& call, const google::protobuf::Message& request,
                      BeginDone done) override;

 private:
  GuardedOperation MakeOperation(std::string name, const MethodDescriptor& method,
                                 const ResolvedPolicy& policy, std::shared_ptr<GuardLog> log);

  const GuardOptions options_;
  const std::shared_ptr<ReplayCache> cache_;
  const std::shared_ptr<GuardLog> log_;
  // Before the reservations, whose timers give it tasks until they end.
  WorkerPools pools_;
  OtherInterceptors others_;
  ReservationClient reservations_;
  // nullptr unless the option is on.
  std::shared_ptr<BackgroundRecovery> background_recovery_;
  bool installed_ = false;
  ProtectedMethods methods_;
  std::vector<std::unique_ptr<grpc::Service>> guarded_services_;
};

GuardedOperation Guard::MakeOperation(std::string name, const MethodDescriptor& method,
                                      const ResolvedPolicy& policy, std::shared_ptr<GuardLog> log) {
  GuardedOperation operation{std::move(name), policy.policy(), options_, reservations_, pools_};
  // Install refuses methods without a choice; nothing runs again before that.
  operation.on_unknown = policy.unknown_outcome().value_or(UnknownOutcome::kRecover);
  const auto config = options_.methods.find(MethodPath(method));
  if (config != options_.methods.end()) {
    operation.recovery = config->second.recovery;
    operation.loader = config->second.loader;
  }
  operation.request_type = std::string(method.input_type()->full_name());
  operation.reply_type = ReplyType(*method.output_type());
  operation.unknown_outcomes = background_recovery_;
  operation.log = std::move(log);
  return operation;
}

void Guard::BeginOperation(const BeginCall& call, const google::protobuf::Message& request,
                           BeginDone done) {
  GuardedOperation operation{call.operation, call.policy, options_, reservations_, pools_};
  // Begin refuses a call without a choice.
  operation.on_unknown =
      ChosenUnknownOutcome(call.policy, call.recovery, options_).value_or(UnknownOutcome::kRecover);
  operation.recovery = call.recovery;
  operation.request_type = std::string(request.GetTypeName());
  if (call.reply_type != nullptr) operation.reply_type = ReplyType(*call.reply_type);
  operation.unknown_outcomes = background_recovery_;
  // The guard's log, not one per operation: the application determines the number of
  // operations.
  operation.log = log_;
  // A granted operation that a callback drops as it throws is abandoned, as one that is destroyed
  // unsettled.
  OperationAdmission::Begin(
      std::move(operation), call, request,
      Contained(log_, call.operation, "the callback of Begin", std::move(done)));
}

absl::Status Guard::ProtectService(grpc::ServerBuilder& builder, const char* service_name,
                                   const std::string& host, grpc::Service* service) {
  if (installed_) return absl::FailedPreconditionError("call Protect before Install");
  const ServiceDescriptor* descriptor =
      DescriptorPool::generated_pool()->FindServiceByName(service_name);
  if (descriptor == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the descriptor of ", service_name, " is not linked into this program"));
  }
  const absl::StatusOr<std::vector<grpc_internals::MethodKind>> kinds =
      grpc_internals::Classify(*descriptor, *service);
  if (!kinds.ok()) return kinds.status();
  const absl::StatusOr<std::vector<CallAdmitter*>> admitters =
      methods_.Add(*descriptor, host,
                   [this](std::string name, const MethodDescriptor& method,
                          const ResolvedPolicy& policy, std::shared_ptr<GuardLog> log) {
                     return MakeOperation(std::move(name), method, policy, std::move(log));
                   });
  if (!admitters.ok()) return admitters.status();
  guarded_services_.push_back(grpc_internals::MakeGuardedService(
      *descriptor, *kinds, *admitters, {pools_.handlers, others_, *log_}, *service));
  if (host.empty()) {
    builder.RegisterService(guarded_services_.back().get());
  } else {
    builder.RegisterService(host, guarded_services_.back().get());
  }
  return absl::OkStatus();
}

absl::Status Guard::InstallInterceptors(grpc::ServerBuilder& builder, InterceptorFactories others) {
  if (installed_) return absl::FailedPreconditionError("the guard is already installed");
  if (methods_.empty()) {
    return absl::FailedPreconditionError(
        "no service is protected: replace RegisterService with Protect");
  }
  // They would be replaced.
  if (grpc_internals::HasInterceptors(builder)) {
    return absl::FailedPreconditionError(
        "the builder already has interceptors: pass your interceptors to Install instead of "
        "SetInterceptorCreators, and install one guard per server");
  }
  if (const absl::Status checked = methods_.Check(); !checked.ok()) return checked;
  methods_.Log();
  InterceptorFactories factories;
  factories.push_back(
      std::make_unique<InterceptorFactory>(methods_.paths(), reservations_, others_));
  if (!others.empty()) others_.Follow();
  for (auto& other : others) factories.push_back(std::move(other));
  if (InterceptorFactory::Paths stream_paths = methods_.stream_paths(); !stream_paths.empty()) {
    factories.push_back(std::make_unique<StreamWriterFactory>(std::move(stream_paths)));
  }
  builder.experimental().SetInterceptorCreators(std::move(factories));
  installed_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Guard>> MakeGuard(std::unique_ptr<Connection> connection,
                                                 GuardOptions options) {
  if (connection == nullptr) return absl::InvalidArgumentError("the connection is null");
  const absl::Status valid = ValidateGuardOptions(options);
  if (!valid.ok()) return valid;
  const absl::Status layout = grpc_internals::CheckLayout();
  if (!layout.ok()) return layout;
  if (!options.scope) options.scope = PeerIdentityScope();
  std::shared_ptr<ReplayCache> cache;
  if (options.replay_cache.capacity_bytes > 0) {
    cache = std::make_shared<ReplayCache>(options.replay_cache, Clock::System());
  }
  return std::make_unique<Guard>(std::move(connection), std::move(cache), std::move(options));
}

// What `make` returns. RESOURCE_EXHAUSTED if the process has reached its limit of threads.
template <typename Make>
absl::StatusOr<std::unique_ptr<Guard>> WithItsThreads(const Make& make) {
  try {
    return make();
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a thread of the guard cannot be started: ", error.what()));
  }
}

google::protobuf::Any ToAny(const OpaqueRequest& request) {
  google::protobuf::Any any;
  any.set_type_url(std::string(request.type));
  any.set_value(std::string(request.bytes));
  return any;
}

}  // namespace
}  // namespace internal

absl::StatusOr<BegunOperation> ServerGuard::Begin(const BeginCall& call,
                                                  const google::protobuf::Message& request) {
  return internal::Await<absl::StatusOr<BegunOperation>>(
      [&](BeginDone done) { Begin(call, request, std::move(done)); });
}

absl::StatusOr<BegunOperation> ServerGuard::Begin(const BeginCall& call,
                                                  const OpaqueRequest& request) {
  return internal::Await<absl::StatusOr<BegunOperation>>(
      [&](BeginDone done) { Begin(call, request, std::move(done)); });
}

void ServerGuard::Begin(const BeginCall& call, const google::protobuf::Message& request,
                        BeginDone done) {
  BeginOperation(call, request, std::move(done));
}

void ServerGuard::Begin(const BeginCall& call, const OpaqueRequest& request, BeginDone done) {
  if (!internal::IsUtf8WithoutControls(request.type)) {
    done(InvalidField("begin.type", "must be UTF-8 without control characters"));
    return;
  }
  BeginOperation(call, internal::ToAny(request), std::move(done));
}

absl::StatusOr<std::unique_ptr<ServerGuard>> ServerGuard::Create(
    std::shared_ptr<grpc::Channel> idempotencyd, GuardOptions options) {
  if (idempotencyd == nullptr) return absl::InvalidArgumentError("the channel is null");
  ConnectionOptions connecting = options.connection;
  if (!connecting.log) connecting.log = options.log;
  absl::StatusOr<std::unique_ptr<internal::Guard>> guard = internal::WithItsThreads([&] {
    return internal::MakeGuard(MakeConnection(std::move(idempotencyd), connecting),
                               std::move(options));
  });
  if (!guard.ok()) return guard.status();
  (*guard)->BeginToConnect();
  return *std::move(guard);
}

absl::StatusOr<std::unique_ptr<ServerGuard>> ServerGuard::Create(
    std::unique_ptr<Connection> connection, GuardOptions options) {
  absl::StatusOr<std::unique_ptr<internal::Guard>> guard = internal::WithItsThreads(
      [&] { return internal::MakeGuard(std::move(connection), std::move(options)); });
  if (!guard.ok()) return guard.status();
  return *std::move(guard);
}

}  // namespace idempotency

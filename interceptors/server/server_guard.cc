#include "grpc_idempotency/server_guard/server_guard.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/any.pb.h"

#include "core/clock.h"
#include "core/record_key_parts.h"
#include "core/utf8.h"
#include "grpc_idempotency/client/connection_factory.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/admission/background_recovery.h"
#include "interceptors/server/admission/operation_admission.h"
#include "interceptors/server/call/capturing_interceptor.h"
#include "interceptors/server/call/guarded_method.h"
#include "interceptors/server/call/other_interceptors.h"
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

// The name of a served method is its path, prefixed by the host if the service has its own.
std::string PathOf(const std::string& operation) { return operation.substr(operation.find('/')); }

// Settings that would have no effect: the method's calls are not guarded.
void RefuseSettingsOfUnguarded(const MethodConfig& config, PolicyFaults& faults) {
  if (config.authoriser) {
    faults.emplace_back(
        "GuardOptions.methods has an authoriser, which is not called with key NONE: authorise in "
        "the handler");
  }
  if (!config.operation.empty()) {
    faults.emplace_back("GuardOptions.methods has an operation, but key NONE has no records");
  }
}

// FAILED_PRECONDITION if a per-method option names a method that does not exist.
absl::Status CheckNames(const std::map<std::string, MethodConfig>& methods,
                        const std::set<std::string>& paths) {
  for (const auto& [name, config] : methods) {
    if (paths.count(name) > 0) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "GuardOptions.methods names ", name, ", which is not a method of a protected service"));
  }
  return absl::OkStatus();
}

// Why the records of `a` cannot be those of `b` too; "" if they can.
absl::string_view DifferenceOf(const GuardedOperation& a, const GuardedOperation& b) {
  const auto streams = [](const GuardedOperation& operation) {
    return operation.policy.stream != MethodPolicy::Stream::kUnguarded;
  };
  if (streams(a) != streams(b)) return "one is unary, and the other one is streaming";
  if (a.on_unknown != b.on_unknown) {
    return "they differ in the choice for an unknown outcome: a retry through one of them would "
           "run what the other one leaves unknown";
  }
  if (static_cast<bool>(a.recovery) != static_cast<bool>(b.recovery)) {
    return "only one of them has a recovery handler";
  }
  return "";
}

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
                      cache_, std::make_unique<TimerThread>(), ReserveLimits(), log_) {
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

  std::uint64_t calls_failed_open() const override {
    std::uint64_t calls = 0;
    for (const auto& [operation, method] : methods_) calls += method->calls_failed_open();
    return calls;
  }

 protected:
  absl::Status ProtectService(grpc::ServerBuilder& builder, const char* service_name,
                              const std::string& host, grpc::Service* service) override;
  absl::Status InstallInterceptors(grpc::ServerBuilder& builder,
                                   InterceptorFactories others) override;
  void BeginOperation(const BeginCall& call, const google::protobuf::Message& request,
                      BeginDone done) override;

 private:
  // One for each method. INVALID_ARGUMENT with all faults.
  absl::StatusOr<std::vector<ResolvedPolicy>> Resolve(const ServiceDescriptor& service) const;
  // Empty if there is none.
  ReplyLoader LoaderOf(const MethodDescriptor& method) const;
  GuardedOperation MakeOperation(std::string name, const MethodDescriptor& method,
                                 const ResolvedPolicy& policy, std::shared_ptr<GuardLog> log);
  // FAILED_PRECONDITION, which lists every guarded method of every service without a choice for
  // unknown outcomes.
  absl::Status CheckChoices() const;
  // FAILED_PRECONDITION, which lists the methods whose records have one operation, but that do not
  // treat them alike.
  absl::Status CheckSharedOperations() const;
  // Where the method's records have another operation, a text that names it; else "".
  std::string RecordsOf(const std::string& operation) const;
  // A record does not outlive its retention while its handler runs, however long heartbeats may go
  // on. Only a warning: records of UUIDv7 keys live at least for the namespace's window.
  void WarnOfShortRetention(const std::string& operation, const MethodPolicy& policy) const;
  // INVALID_ARGUMENT if `operation` is not valid in a record key.
  absl::Status ValidateOperation(const std::string& host, const std::string& operation) const;

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
  // The policy of every method of a protected service, by host and path.
  std::map<std::string, ResolvedPolicy> policies_;
  // The methods that are guarded.
  std::map<std::string, std::unique_ptr<GuardedMethod>> methods_;
  std::vector<std::unique_ptr<grpc::Service>> guarded_services_;
};

absl::StatusOr<std::vector<ResolvedPolicy>> Guard::Resolve(const ServiceDescriptor& service) const {
  std::vector<ResolvedPolicy> policies;
  std::vector<std::string> wrong;
  for (int i = 0; i < service.method_count(); ++i) {
    const MethodDescriptor& method = *service.method(i);
    PolicyFaults faults;
    policies.push_back(ResolvedPolicy::Of(method, options_, faults));
    const MethodPolicy& policy = policies.back().policy();
    if (policy.key != MethodPolicy::Key::kNone && policy.reply == MethodPolicy::Reply::kReference &&
        !LoaderOf(method)) {
      faults.push_back("reply REFERENCE needs a loader in GuardOptions.methods");
    }
    const auto config = options_.methods.find(MethodPath(method));
    if (policy.key == MethodPolicy::Key::kNone && config != options_.methods.end()) {
      RefuseSettingsOfUnguarded(config->second, faults);
    }
    for (const std::string& fault : faults) {
      wrong.push_back(absl::StrCat(MethodPath(method), ": ", fault));
    }
  }
  if (wrong.empty()) return policies;
  return absl::InvalidArgumentError(absl::StrCat("invalid policies: ", absl::StrJoin(wrong, "; ")));
}

ReplyLoader Guard::LoaderOf(const MethodDescriptor& method) const {
  const auto config = options_.methods.find(MethodPath(method));
  return config != options_.methods.end() ? config->second.loader : ReplyLoader();
}

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

absl::Status Guard::ValidateOperation(const std::string& host, const std::string& operation) const {
  // A host that contains a path could make two operations equal.
  if (!absl::StrContains(host, '/') && internal::ValidateOperation(operation).ok()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("records cannot be stored under the operation ", operation));
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
  const absl::StatusOr<std::vector<ResolvedPolicy>> resolved = Resolve(*descriptor);
  if (!resolved.ok()) return resolved.status();

  std::map<std::string, ResolvedPolicy> policies;
  std::map<std::string, std::unique_ptr<GuardedMethod>> guarded;
  std::vector<CallAdmitter*> admitters;
  for (int i = 0; i < descriptor->method_count(); ++i) {
    const MethodDescriptor& method = *descriptor->method(i);
    const std::string operation = absl::StrCat(host, MethodPath(method));
    admitters.push_back(nullptr);
    if (policies_.count(operation) > 0) {
      return absl::FailedPreconditionError(absl::StrCat(service_name, " is already protected"));
    }
    policies.emplace(operation, (*resolved)[i]);
    const MethodPolicy& policy = (*resolved)[i].policy();
    if (policy.key == MethodPolicy::Key::kNone) continue;
    const std::shared_ptr<GuardLog> log = log_->ForMethod();
    absl::StatusOr<RequestIdentity> identity = RequestIdentity::Make(method, policy, options_, log);
    if (!identity.ok()) return identity.status();
    const std::string recorded_as = absl::StrCat(host, identity->operation());
    const absl::Status valid = ValidateOperation(host, recorded_as);
    if (!valid.ok()) return valid;
    GuardedOperation guarded_operation = MakeOperation(recorded_as, method, (*resolved)[i], log);
    auto admitter =
        std::make_unique<GuardedMethod>(*std::move(identity), std::move(guarded_operation));
    admitters.back() = admitter.get();
    guarded.emplace(operation, std::move(admitter));
  }
  guarded_services_.push_back(grpc_internals::MakeGuardedService(
      *descriptor, *kinds, admitters, {pools_.handlers, others_, *log_}, *service));
  policies_.merge(policies);
  methods_.merge(guarded);
  if (host.empty()) {
    builder.RegisterService(guarded_services_.back().get());
  } else {
    builder.RegisterService(host, guarded_services_.back().get());
  }
  return absl::OkStatus();
}

absl::Status Guard::CheckChoices() const {
  std::vector<std::string> unchosen;
  for (const auto& [operation, policy] : policies_) {
    if (policy.policy().key == MethodPolicy::Key::kNone || policy.unknown_outcome()) continue;
    unchosen.push_back(operation);
  }
  if (unchosen.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the handling of an unknown outcome (the handler fails without stating that "
                   "nothing happened, or its process is lost) is not chosen for ",
                   absl::StrJoin(unchosen, ", "), ". For each of them ", UnknownOutcomeChoices()));
}

absl::Status Guard::CheckSharedOperations() const {
  std::map<std::string, std::pair<std::string, const GuardedOperation*>> first;
  std::vector<std::string> faults;
  for (const auto& [name, method] : methods_) {
    const GuardedOperation& its = method->guarded_operation();
    const auto [other, is_first] = first.try_emplace(its.name, name, &its);
    if (is_first) continue;
    const absl::string_view difference = DifferenceOf(*other->second.second, its);
    if (difference.empty()) continue;
    faults.push_back(absl::StrCat(other->second.first, " and ", name,
                                  " cannot have one operation: ", difference));
  }
  if (faults.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("GuardOptions.methods: ", absl::StrJoin(faults, "; ")));
}

std::string Guard::RecordsOf(const std::string& operation) const {
  const auto method = methods_.find(operation);
  if (method == methods_.end() || method->second->operation() == operation) return "";
  return absl::StrCat("; its records are of the operation ", method->second->operation());
}

void Guard::WarnOfShortRetention(const std::string& operation, const MethodPolicy& policy) const {
  if (policy.key == MethodPolicy::Key::kNone || policy.retention >= policy.max_lease) return;
  log_->Once(LogSeverity::kWarning,
             absl::StrCat(operation, ": max_lease ", absl::FormatDuration(policy.max_lease),
                          " is over the retention ", absl::FormatDuration(policy.retention),
                          ": the record of a handler that runs longer than its retention is "
                          "forgotten, unless its key is a UUIDv7, and a retry runs again: retain "
                          "records for longer than a handler may run"));
}

absl::Status Guard::InstallInterceptors(grpc::ServerBuilder& builder, InterceptorFactories others) {
  if (installed_) return absl::FailedPreconditionError("the guard is already installed");
  if (policies_.empty()) {
    return absl::FailedPreconditionError(
        "no service is protected: replace RegisterService with Protect");
  }
  // They would be replaced.
  if (grpc_internals::HasInterceptors(builder)) {
    return absl::FailedPreconditionError(
        "the builder already has interceptors: pass your interceptors to Install instead of "
        "SetInterceptorCreators, and install one guard per server");
  }
  std::set<std::string> known_paths;
  for (const auto& [operation, policy] : policies_) known_paths.insert(PathOf(operation));
  const absl::Status known = CheckNames(options_.methods, known_paths);
  if (!known.ok()) return known;
  if (const absl::Status chosen = CheckChoices(); !chosen.ok()) return chosen;
  if (const absl::Status shared = CheckSharedOperations(); !shared.ok()) return shared;
  for (const auto& [operation, policy] : policies_) {
    log_->Once(LogSeverity::kInfo,
               absl::StrCat(operation, ": ", policy.Description(), RecordsOf(operation)));
    WarnOfShortRetention(operation, policy.policy());
    if (!policy.is_retried_unguarded()) continue;
    log_->Once(LogSeverity::kWarning,
               absl::StrCat(operation,
                            ": the code sets key NONE, but the proto declares a key, so clients "
                            "retry the method, and each retry runs it again: set KEY_NONE in the "
                            "proto, or name the guarded methods in RetryingChannelArguments() of "
                            "every client"));
  }

  InterceptorFactory::Paths paths;
  InterceptorFactory::Paths stream_paths;
  for (const auto& [operation, method] : methods_) {
    paths.insert(PathOf(operation));
    if (policies_.at(operation).policy().stream != MethodPolicy::Stream::kUnguarded) {
      stream_paths.insert(PathOf(operation));
    }
  }
  InterceptorFactories factories;
  factories.push_back(
      std::make_unique<InterceptorFactory>(std::move(paths), reservations_, others_));
  if (!others.empty()) others_.Follow();
  for (auto& other : others) factories.push_back(std::move(other));
  if (!stream_paths.empty()) {
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

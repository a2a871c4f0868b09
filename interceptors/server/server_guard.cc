#include "interceptors/server/server_guard.h"

#include <spdlog/spdlog.h>

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/unary_connection.h"
#include "interceptors/server/grpc_internals.h"
#include "interceptors/server/guarded_method.h"
#include "interceptors/server/interceptor_factory.h"
#include "interceptors/server/reservations.h"

namespace idempotency {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

std::string FullName(const MethodDescriptor& method) {
  return absl::StrCat("/", method.service()->full_name(), "/", method.name());
}

bool IsUnary(const MethodDescriptor& method) {
  return !method.client_streaming() && !method.server_streaming();
}

void Log(const std::string& name, const MethodPolicy& policy) {
  if (policy.key == MethodPolicy::Key::kNone) {
    spdlog::info("{}: not guarded", name);
    return;
  }
  spdlog::info("{}: key {}, in flight: {}, lease {}, retention {}, when a lease ends: {}", name,
               policy.key == MethodPolicy::Key::kRequired ? "required" : "optional",
               policy.in_flight == MethodPolicy::InFlight::kWait
                   ? absl::StrCat("wait ", absl::FormatDuration(policy.max_wait))
                   : "refuse",
               absl::FormatDuration(policy.lease), absl::FormatDuration(policy.retention),
               policy.on_lease_expiry == MethodPolicy::OnLeaseExpiry::kRequireRecovery
                   ? "recovery"
                   : "take over");
}

class Guard final : public ServerGuard {
 public:
  Guard(std::unique_ptr<Connection> connection, GuardOptions options)
      : options_(std::move(options)),
        reservations_(std::move(connection), options_.recording_timeout, options_.closing_timeout) {
  }

  void Close() override { reservations_.Close(); }

 protected:
  absl::Status ProtectService(grpc::ServerBuilder& builder, const char* service_name,
                              grpc::Service* service) override;
  absl::Status InstallInterceptors(grpc::ServerBuilder& builder,
                                   InterceptorFactories others) override;

 private:
  MethodPolicy PolicyOf(const MethodDescriptor& method) const;

  const GuardOptions options_;
  Reservations reservations_;
  bool installed_ = false;
  // The policy of every unary method of a protected service.
  std::map<std::string, MethodPolicy> policies_;
  // Those that are guarded.
  std::map<std::string, std::unique_ptr<GuardedMethod>> methods_;
  std::vector<std::unique_ptr<grpc::Service>> fronts_;
};

MethodPolicy Guard::PolicyOf(const MethodDescriptor& method) const {
  const auto override_entry = options_.policies.find(FullName(method));
  return override_entry != options_.policies.end() ? override_entry->second
                                                   : MethodPolicy::DefaultFor(method);
}

absl::Status Guard::ProtectService(grpc::ServerBuilder& builder, const char* service_name,
                                   grpc::Service* service) {
  if (installed_) return absl::FailedPreconditionError("Protect comes before Install");
  const ServiceDescriptor* descriptor =
      DescriptorPool::generated_pool()->FindServiceByName(service_name);
  if (descriptor == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the descriptor of ", service_name, " is not linked into this program"));
  }
  const absl::StatusOr<std::vector<grpc_internals::MethodKind>> kinds =
      grpc_internals::Classify(*descriptor, *service);
  if (!kinds.ok()) return kinds.status();

  std::map<std::string, MethodPolicy> policies;
  std::map<std::string, std::unique_ptr<GuardedMethod>> guarded;
  std::vector<CallGate*> gates;
  for (int i = 0; i < descriptor->method_count(); ++i) {
    const MethodDescriptor& method = *descriptor->method(i);
    const std::string name = FullName(method);
    gates.push_back(nullptr);
    if (!IsUnary(method)) continue;
    if (policies_.count(name) > 0) {
      return absl::FailedPreconditionError(absl::StrCat(service_name, " is protected already"));
    }
    const MethodPolicy policy = policies.emplace(name, PolicyOf(method)).first->second;
    if (policy.key == MethodPolicy::Key::kNone) continue;
    gates.back() =
        guarded
            .emplace(name, std::make_unique<GuardedMethod>(name, policy, options_, reservations_))
            .first->second.get();
  }
  fronts_.push_back(grpc_internals::MakeFront(*descriptor, *kinds, gates, *service));
  policies_.merge(policies);
  methods_.merge(guarded);
  builder.RegisterService(fronts_.back().get());
  return absl::OkStatus();
}

absl::Status Guard::InstallInterceptors(grpc::ServerBuilder& builder, InterceptorFactories others) {
  if (installed_) return absl::FailedPreconditionError("the guard is installed already");
  for (const auto& [name, policy] : options_.policies) {
    if (policies_.count(name) == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("GuardOptions.policies names ", name,
                       ", which is no unary method of a protected service"));
    }
  }
  for (const auto& [name, policy] : policies_) Log(name, policy);

  InterceptorFactory::Methods methods;
  for (const auto& [name, method] : methods_) methods.emplace(name, method.get());
  InterceptorFactories factories;
  factories.push_back(std::make_unique<InterceptorFactory>(std::move(methods)));
  for (auto& other : others) factories.push_back(std::move(other));
  builder.experimental().SetInterceptorCreators(std::move(factories));
  installed_ = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ServerGuard>> ServerGuard::Create(
    std::shared_ptr<grpc::Channel> idempotencyd, GuardOptions options) {
  if (idempotencyd == nullptr) return absl::InvalidArgumentError("there is no channel");
  return Create(MakeUnaryConnection(std::move(idempotencyd)), std::move(options));
}

absl::StatusOr<std::unique_ptr<ServerGuard>> ServerGuard::Create(
    std::unique_ptr<Connection> connection, GuardOptions options) {
  if (connection == nullptr) return absl::InvalidArgumentError("there is no connection");
  const absl::Status valid = ValidateGuardOptions(options);
  if (!valid.ok()) return valid;
  const absl::Status layout = grpc_internals::CheckLayout();
  if (!layout.ok()) return layout;
  if (!options.scope) options.scope = PeerIdentityScope();
  return std::make_unique<Guard>(std::move(connection), std::move(options));
}

}  // namespace idempotency

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "ctl/commands.h"
#include "ctl/envoy/deployment_flags.h"
#include "ctl/envoy/formats.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

class EnvoyConfigCommand final : public Command {
 public:
  absl::string_view name() const override { return "envoy-config"; }
  absl::string_view summary() const override { return "write the configuration of an Envoy"; }
  absl::string_view description() const override {
    return "Writes the configuration of an Envoy in front of a service, with the reasons as\n"
           "comments: guarded methods pass idempotencyd's external processing, and no others.\n"
           "  --format=envoy          a bootstrap for `envoy -c`\n"
           "  --format=istio          an EnvoyFilter for the sidecars of a workload\n"
           "  --format=envoy-gateway  HTTPRoutes and the policies of Envoy Gateway\n"
           "The same flags give the same text. It connects to nothing.";
  }
  bool connects() const override { return false; }

  void AddFlags(FlagSet& flags) override {
    flags.AddText("format", "FORMAT", &format_, "envoy, istio or envoy-gateway.");
    deployment_flags_.AddTo(flags);
  }

  absl::Status Validate(absl::string_view /*operand*/) override {
    if (format_ != "envoy" && format_ != "istio" && format_ != "envoy-gateway") {
      return absl::InvalidArgumentError("--format must be envoy, istio or envoy-gateway");
    }
    using Format = DeploymentFlags::Format;
    absl::StatusOr<Deployment> deployment =
        deployment_flags_.Read(format_ == "envoy"   ? Format::kEnvoy
                               : format_ == "istio" ? Format::kIstio
                                                    : Format::kEnvoyGateway);
    if (!deployment.ok()) return deployment.status();
    if (format_ == "istio" && deployment->workload_labels.empty()) {
      return absl::InvalidArgumentError(
          "--workload is missing: without it the filter is in every sidecar of the namespace");
    }
    deployment_ = *std::move(deployment);
    return absl::OkStatus();
  }

  absl::Status Run(Service* /*service*/, Terminal& terminal) override {
    if (format_ == "istio") {
      terminal.Print(IstioEnvoyFilter(deployment_));
    } else if (format_ == "envoy-gateway") {
      terminal.Print(EnvoyGatewayObjects(deployment_));
    } else {
      terminal.Print(StaticBootstrap(deployment_));
    }
    // The daemon would end the exchange, and with it the request, first.
    if (deployment_.deadline > limits::kDefaultMaxLease) {
      terminal.Note(absl::StrCat(
          "--deadline is over an hour: set --connection_grace of idempotencyd, and max_lease of "
          "the guarded methods, to ",
          absl::FormatDuration(deployment_.deadline),
          " or more. Otherwise the outcome of a longer request is unknown.\n"));
    }
    return absl::OkStatus();
  }

 private:
  std::string format_ = "envoy";
  DeploymentFlags deployment_flags_;
  Deployment deployment_;
};

}  // namespace

std::unique_ptr<Command> NewEnvoyConfigCommand() { return std::make_unique<EnvoyConfigCommand>(); }

}  // namespace idempotency::internal

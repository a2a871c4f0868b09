#include "idempotencyd/external_processor_service.h"

#include <grpcpp/server_context.h>

#include <set>
#include <string>
#include <utility>

#include "envoy/service/ext_proc/v3/external_processor.grpc.pb.h"

#include "core/mutex.h"
#include "embedded/direct_connection.h"
#include "grpc_idempotency/errors.h"
#include "idempotencyd/processor_metrics.h"
#include "idempotencyd/processor_settings_from.h"
#include "idempotencyd/queued_external_processor.h"
#include "interceptors/ext_proc/service/external_processor.h"
#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

void WriteLine(LogSeverity severity, std::string_view line) {
  const LogLevel level = severity == LogSeverity::kInfo      ? LogLevel::kInfo
                         : severity == LogSeverity::kWarning ? LogLevel::kWarn
                                                             : LogLevel::kError;
  Log(level, "external processor", {{"what", absl::string_view(line.data(), line.size())}});
}

// The proxies that may open streams. Thread-safe.
class Proxies {
 public:
  // Both outlive it.
  Proxies(const AccessControl& access, Observer& observer) : access_(access), observer_(observer) {}

  void Replace(std::set<std::string> names) {
    MutexLock lock(mutex_);
    names_ = std::move(names);
  }

  absl::Status Admit(const grpc::ServerContextBase& context) {
    std::set<std::string> names;
    {
      MutexLock lock(mutex_);
      names = names_;
    }
    if (names.empty()) return absl::OkStatus();
    Caller caller(access_, context);
    const absl::StatusOr<std::string> name = caller.Name();
    if (!name.ok()) return Refused(name.status(), "", caller);
    if (names.count(*name) > 0) return absl::OkStatus();
    return Refused(
        MakeError(Reason::kAccessDenied, "this identity is not one of external_processor.proxies"),
        *name, caller);
  }

 private:
  absl::Status Refused(absl::Status why, const std::string& name, const Caller& caller) {
    observer_.CallerRefused({why, name, "", caller.peer()});
    return why;
  }

  const AccessControl& access_;
  Observer& observer_;
  Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

class ExternalProcessorService final : public FurtherService {
 public:
  ExternalProcessorService(const FurtherServiceParts& parts,
                           std::shared_ptr<const ProcessorSettings> settings)
      : exposed_(parts.exposed),
        streams_of_address_(parts.streams_of_address),
        metrics_(parts.registry),
        proxies_(parts.access, parts.observer),
        processor_(
            std::move(settings), std::make_unique<DirectConnection>(nullptr, parts.operations),
            ExchangeLimitsFrom(parts.config),
            [this](const grpc::ServerContextBase& context) { return proxies_.Admit(context); },
            metrics_, std::make_shared<GuardLog>(WriteLine)) {
    proxies_.Replace(NamesOf(parts.config));
    WarnOfStreams(parts.config);
  }

  std::string service_name() const override {
    return envoy::service::ext_proc::v3::ExternalProcessor::service_full_name();
  }

  void Register(grpc::ServerBuilder& builder, QueuedMethods& methods) override {
    queued_.Register(builder, methods);
  }

  absl::Status Configure(const LoadedConfig& config) override {
    if (const absl::Status valid = Check(config, exposed_); !valid.ok()) return valid;
    auto settings = ProcessorSettingsFrom(config);
    if (!settings.ok()) return settings.status();
    proxies_.Replace(NamesOf(config));
    processor_.Configure(*std::move(settings), ExchangeLimitsFrom(config));
    WarnOfStreams(config);
    return absl::OkStatus();
  }

  void Close() override { processor_.Close(); }

  static absl::Status Check(const LoadedConfig& config, bool exposed) {
    if (!config.config.has_external_processor()) {
      return absl::InvalidArgumentError(
          "external_processor is missing, which --ext_proc needs: it states what is guarded");
    }
    if (exposed && config.config.external_processor().proxies().empty()) {
      return absl::InvalidArgumentError(
          "external_processor: proxies must name who may open streams, since other machines reach "
          "--ext_proc");
    }
    return absl::OkStatus();
  }

 private:
  static std::set<std::string> NamesOf(const LoadedConfig& config) {
    const auto& names = config.config.external_processor().proxies();
    return {names.begin(), names.end()};
  }

  void WarnOfStreams(const LoadedConfig& config) const {
    const std::string warning = StreamsWarning(ExchangeLimitsFrom(config), streams_of_address_);
    if (!warning.empty()) WriteLine(LogSeverity::kWarning, warning);
  }

  const bool exposed_;
  const int streams_of_address_;
  ProcessorMetrics metrics_;
  Proxies proxies_;
  ExternalProcessor processor_;
  QueuedExternalProcessor queued_{processor_};
};

}  // namespace

absl::StatusOr<std::unique_ptr<FurtherService>> MakeExternalProcessor(
    const FurtherServiceParts& parts) {
  if (const absl::Status valid = ExternalProcessorService::Check(parts.config, parts.exposed);
      !valid.ok()) {
    return valid;
  }
  auto settings = ProcessorSettingsFrom(parts.config);
  if (!settings.ok()) return settings.status();
  return std::make_unique<ExternalProcessorService>(parts, *std::move(settings));
}

absl::Status CheckExternalProcessor(const LoadedConfig& config) {
  if (!config.config.has_external_processor()) return absl::OkStatus();
  return ProcessorSettingsFrom(config).status();
}

}  // namespace idempotency::internal

#include "server/observability/grpc_log.h"

#include <grpcpp/version_info.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"

#include "core/absl_view.h"
#include "server/observability/log.h"

// Before 1.66 gRPC had a log of its own; since then it uses Abseil's.
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 66
#include <grpc/support/log.h>
#else
#include "absl/base/log_severity.h"
#include "absl/log/globals.h"
#include "absl/log/initialize.h"
#include "absl/log/log_entry.h"
#include "absl/log/log_sink.h"
#include "absl/log/log_sink_registry.h"
#endif

namespace idempotency::internal {

std::optional<std::int64_t> GrpcErrorThrottle::Admit(std::string_view file) {
  MutexLock lock(mutex_);
  return throttles_.try_emplace(AbslView(file), clock_).first->second.Admit();
}

namespace {

// Those that exist.
struct HandshakeReports {
  Mutex mutex;
  absl::flat_hash_set<const FailedHandshakeReports::Report*> reports ABSL_GUARDED_BY(mutex);
};

// Never destroyed: gRPC's threads may log after static destruction has started.
HandshakeReports& AllHandshakeReports() {
  static HandshakeReports& all = *std::make_unique<HandshakeReports>().release();
  return all;
}

// False: it is another message, or no report is wanted.
bool ReportHandshake(std::string_view file, std::string_view text) {
  if (!absl::EndsWith(AbslView(file), "ssl_transport_security.cc")) return false;
  if (!absl::StartsWith(AbslView(text), "Handshake failed")) return false;
  HandshakeReports& all = AllHandshakeReports();
  MutexLock lock(all.mutex);
  for (const FailedHandshakeReports::Report* const report : all.reports) (*report)(text);
  return !all.reports.empty();
}

void LogEvent(LogLevel level, std::string_view file, std::string_view text) {
  if (ReportHandshake(file, text)) return;
  if (level != LogLevel::kError) return Log(level, "grpc", {{"text", AbslView(text)}});
  // Never destroyed: gRPC's threads may log after static destruction has started.
  static GrpcErrorThrottle& throttle = *std::make_unique<GrpcErrorThrottle>().release();
  const std::optional<std::int64_t> left_out = throttle.Admit(file);
  if (!left_out.has_value()) return;
  Log(level, "grpc", {{"text", AbslView(text)}, {"left_out", *left_out}});
}

}  // namespace

FailedHandshakeReports::FailedHandshakeReports(Report report) : report_(std::move(report)) {
  HandshakeReports& all = AllHandshakeReports();
  MutexLock lock(all.mutex);
  all.reports.insert(&report_);
}

FailedHandshakeReports::~FailedHandshakeReports() {
  HandshakeReports& all = AllHandshakeReports();
  MutexLock lock(all.mutex);
  all.reports.erase(&report_);
}

#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 66

namespace {

LogLevel LevelOf(gpr_log_severity severity) {
  switch (severity) {
    case GPR_LOG_SEVERITY_DEBUG:
      return LogLevel::kDebug;
    case GPR_LOG_SEVERITY_INFO:
      return LogLevel::kInfo;
    case GPR_LOG_SEVERITY_ERROR:
      break;
  }
  return LogLevel::kError;
}

void LogMessage(gpr_log_func_args* args) {
  LogEvent(LevelOf(args->severity), args->file, args->message);
}

}  // namespace

void LogWhatGrpcLogs() { gpr_set_log_function(&LogMessage); }

#else

namespace {

LogLevel LevelOf(absl::LogSeverity severity) {
  switch (severity) {
    case absl::LogSeverity::kInfo:
      return LogLevel::kInfo;
    case absl::LogSeverity::kWarning:
      return LogLevel::kWarn;
    default:
      return LogLevel::kError;
  }
}

class EventSink final : public absl::LogSink {
 public:
  void Send(const absl::LogEntry& entry) override {
    const absl::string_view file = entry.source_filename();
    const absl::string_view text = entry.text_message();
    LogEvent(LevelOf(entry.log_severity()), {file.data(), file.size()}, {text.data(), text.size()});
  }
};

}  // namespace

void LogWhatGrpcLogs() {
  // Never destroyed: gRPC's threads may log after static destruction has started.
  static EventSink* const sink = [] {
    EventSink* const made = std::make_unique<EventSink>().release();
    absl::AddLogSink(made);
    // Not to stderr as well.
    absl::SetStderrThreshold(absl::LogSeverityAtLeast::kInfinity);
    absl::InitializeLog();
    return made;
  }();
  static_cast<void>(sink);
}

#endif

}  // namespace idempotency::internal

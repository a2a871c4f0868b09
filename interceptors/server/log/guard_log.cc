#include "interceptors/server/log/guard_log.h"

#include <utility>

#include "core/absl_view.h"

namespace idempotency::internal {

GuardLog::GuardLog(LogSink sink, const Clock& clock)
    : GuardLog(ApplicationLog(std::move(sink)), clock) {}

GuardLog::GuardLog(ApplicationLog log, const Clock& clock) : log_(std::move(log)), clock_(clock) {
  for (auto& throttle : throttles_) throttle = std::make_unique<LogThrottle>(clock);
}

const std::shared_ptr<GuardLog>& GuardLog::Default() {
  static const auto log = std::make_shared<GuardLog>();
  return log;
}

LogSink GuardLog::SinkFor(std::shared_ptr<GuardLog> log, LogEvent event) {
  return [log = std::move(log), event](LogSeverity severity, std::string_view line) {
    log->Write(severity, event, AbslView(line));
  };
}

LogSink GuardLog::SinkOr(LogSink sink, LogEvent event) {
  return sink ? std::move(sink) : SinkFor(Default(), event);
}

std::shared_ptr<GuardLog> GuardLog::ForMethod() const {
  return std::make_shared<GuardLog>(log_, clock_);
}

void GuardLog::Once(LogSeverity severity, std::string_view line) const {
  log_.Write(severity, line);
}

void GuardLog::Write(LogSeverity severity, std::string_view line, std::int64_t left_out) const {
  std::string rest;
  if (left_out > 0) rest = absl::StrCat(" (", left_out, " more were suppressed)");
  log_.Write(severity, line, rest);
}

}  // namespace idempotency::internal

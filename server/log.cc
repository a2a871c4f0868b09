#include "server/log.h"

#include <grpc/support/log.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace idempotency {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

LogLevel FromGrpc(gpr_log_severity severity) {
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

void LogFromGrpc(gpr_log_func_args* args) {
  Log(FromGrpc(args->severity), "grpc", {{"message", args->message}});
}

bool NeedsQuotes(absl::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (!absl::ascii_isgraph(c) || c == '"' || c == '=' || c == '\\') return true;
  }
  return false;
}

void AppendQuoted(std::string* line, absl::string_view value) {
  absl::StrAppend(line, "\"", absl::Utf8SafeCEscape(value), "\"");
}

}  // namespace

std::string FormatLogLine(absl::string_view event, std::initializer_list<LogField> fields) {
  std::string line = "event=";
  AppendQuoted(&line, event);
  for (const LogField& field : fields) {
    absl::StrAppend(&line, " ", field.name, "=");
    if (NeedsQuotes(field.value)) {
      AppendQuoted(&line, field.value);
    } else {
      line += field.value;
    }
  }
  return line;
}

void StartLog(LogLevel level) {
  auto logger = std::make_shared<spdlog::logger>(
      "idempotencyd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  auto formatter = std::make_unique<spdlog::pattern_formatter>("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v",
                                                               spdlog::pattern_time_type::utc);
  logger->set_formatter(std::move(formatter));
  logger->set_level(ToSpdlog(level));
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(&LogFromGrpc);
}

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
  if (!spdlog::should_log(spdlog_level)) return;
  spdlog::log(spdlog_level, spdlog::string_view_t(FormatLogLine(event, fields)));
}

}  // namespace idempotency

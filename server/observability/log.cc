#include "server/observability/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

#include "server/observability/grpc_log.h"

namespace idempotency::internal {
namespace {

const char* const kEventLogger = "events";

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

// "%*" in a pattern: the text, quoted.
class QuotedText final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    std::string quoted;
    AppendQuoted(&quoted, absl::string_view(message.payload.data(), message.payload.size()));
    line.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<QuotedText>();
  }
};

spdlog::sink_ptr NewSink(const std::string& text) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<QuotedText>('*').set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l " + text);
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_formatter(std::move(formatter));
  return sink;
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
  // Events already consist of pairs. All other log output of the process is
  // text, which becomes one pair.
  const auto events = std::make_shared<spdlog::logger>(kEventLogger, NewSink("%v"));
  const auto texts = std::make_shared<spdlog::logger>("", NewSink("event=%*"));
  events->set_level(ToSpdlog(level));
  texts->set_level(ToSpdlog(level));
  spdlog::register_logger(events);
  spdlog::set_default_logger(texts);
  LogWhatGrpcLogs();
}

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  const std::shared_ptr<spdlog::logger> logger = spdlog::get(kEventLogger);
  const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
  if (logger == nullptr || !logger->should_log(spdlog_level)) return;
  logger->log(spdlog_level, spdlog::string_view_t(FormatLogLine(event, fields)));
}

}  // namespace idempotency::internal

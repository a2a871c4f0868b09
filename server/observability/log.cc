#include "server/observability/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/wrappers.pb.h"

#include "core/utf8.h"
#include "server/observability/grpc_log.h"

namespace idempotency::internal {
namespace {

const char* const kEventLogger = "events";

// Written by StartLog() alone, before there are other threads.
LogFormat log_format = LogFormat::kText;

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

// `value` as a JSON string. Bytes that are not UTF-8 become '?'.
void AppendJsonString(std::string* line, absl::string_view value) {
  google::protobuf::StringValue text;
  text.set_value(ToUtf8(std::string_view(value.data(), value.size())));
  // Escapes whatever ends a line or a string. It cannot fail for well-formed text.
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(text, &json).ok()) json = R"("?")";
  *line += json;
}

// "%*" in a pattern: the text, quoted.
class QuotedText final : public spdlog::custom_flag_formatter {
 public:
  explicit QuotedText(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    std::string quoted;
    const absl::string_view text(message.payload.data(), message.payload.size());
    if (format_ == LogFormat::kJson) {
      AppendJsonString(&quoted, text);
    } else {
      AppendQuoted(&quoted, text);
    }
    line.append(quoted.data(), quoted.data() + quoted.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<QuotedText>(format_);
  }

 private:
  const LogFormat format_;
};

spdlog::sink_ptr NewSink(LogFormat format, const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<QuotedText>('*', format).set_pattern(pattern);
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  sink->set_formatter(std::move(formatter));
  return sink;
}

}  // namespace

std::string FormatLogLine(LogFormat format, absl::string_view event,
                          std::initializer_list<LogField> fields) {
  if (format == LogFormat::kJson) {
    std::string line = R"("message":)";
    AppendJsonString(&line, event);
    for (const LogField& field : fields) {
      line += ',';
      AppendJsonString(&line, field.name);
      line += ':';
      AppendJsonString(&line, field.value);
    }
    return line;
  }
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

void StartLog(LogLevel level, LogFormat format) {
  log_format = format;
  const bool json = format == LogFormat::kJson;
  const std::string head = json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","severity":"%l",)"
                                : "time=%Y-%m-%dT%H:%M:%S.%eZ level=%l ";
  // Events already consist of pairs. All other log output of the process is
  // text, which becomes one pair.
  const auto events =
      std::make_shared<spdlog::logger>(kEventLogger, NewSink(format, head + (json ? "%v}" : "%v")));
  const auto texts = std::make_shared<spdlog::logger>(
      "", NewSink(format, head + (json ? R"("message":%*})" : "event=%*")));
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
  logger->log(spdlog_level, spdlog::string_view_t(FormatLogLine(log_format, event, fields)));
}

}  // namespace idempotency::internal

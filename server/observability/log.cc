#include "server/observability/log.h"

#include <poll.h>
#include <signal.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/wrappers.pb.h"

#include "core/absl_view.h"
#include "core/utf8.h"
#include "server/limits.h"
#include "server/observability/grpc_log.h"
#include "server/observability/log_writer.h"

namespace idempotency::internal {
namespace {

const char* const kEventLogger = "events";

// Written by StartLog() alone, before there are other threads.
LogFormat log_format = LogFormat::kText;
// Never destroyed: gRPC's threads may log after static destruction has started.
std::atomic<LogWriter*> log_writer{nullptr};

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

// Bytes that are not UTF-8 become '?', here and below.
std::string InQuotes(absl::string_view value) {
  const std::string text = ToUtf8(std::string_view(value.data(), value.size()));
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

std::string JsonString(absl::string_view value) {
  google::protobuf::StringValue text;
  text.set_value(ToUtf8(std::string_view(value.data(), value.size())));
  // Escapes whatever ends a line or a string. It cannot fail for well-formed text.
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(text, &json).ok()) json = R"("?")";
  return json;
}

// Writes the pairs of one line, at most limits::kMaxLogLineBytes. The first value that does not fit
// is cut, and a last pair reports it.
class LineWriter {
 public:
  explicit LineWriter(LogFormat format) : json_(format == LogFormat::kJson) {}

  void Event(absl::string_view event) { Append(json_ ? R"("message":)" : "event=", event, true); }

  void Field(const LogField& field) {
    const std::string start =
        json_ ? absl::StrCat(",", JsonString(field.name), ":") : absl::StrCat(" ", field.name, "=");
    Append(start, field.value, json_ || NeedsQuotes(field.value));
  }

  std::string Line() && { return std::move(line_); }

 private:
  static constexpr absl::string_view kCutText = " cut=true";
  static constexpr absl::string_view kCutJson = R"(,"cut":"true")";
  static constexpr std::size_t kMaxPairBytes = limits::kMaxLogLineBytes - kCutJson.size();

  std::string Written(absl::string_view value, bool quoted) const {
    if (json_) return JsonString(value);
    return quoted ? InQuotes(value) : std::string(value);
  }

  void Append(absl::string_view start, absl::string_view value, bool quoted) {
    if (cut_) return;
    const std::size_t used = line_.size() + start.size();
    // Not even quotes.
    if (used + 2 > kMaxPairBytes) return Cut();
    const std::size_t room = kMaxPairBytes - used;
    // No byte becomes shorter when it is written.
    std::string_view kept = Utf8Prefix(std::string_view(value.data(), value.size()), room);
    std::string written = Written(AbslView(kept), quoted);
    while (written.size() > room) {
      kept = Utf8Prefix(kept, kept.size() * room / (written.size() + 1));
      written = Written(AbslView(kept), quoted);
    }
    absl::StrAppend(&line_, start, written);
    if (kept.size() < value.size()) Cut();
  }

  void Cut() {
    cut_ = true;
    absl::StrAppend(&line_, json_ ? kCutJson : kCutText);
  }

  const bool json_;
  bool cut_ = false;
  std::string line_;
};

// "%*" in a pattern: the text, as an event.
class TextAsEvent final : public spdlog::custom_flag_formatter {
 public:
  explicit TextAsEvent(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    const std::string event = FormatLogLine(
        format_, absl::string_view(message.payload.data(), message.payload.size()), {});
    line.append(event.data(), event.data() + event.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<TextAsEvent>(format_);
  }

 private:
  const LogFormat format_;
};

std::unique_ptr<spdlog::formatter> NewFormatter(LogFormat format, const std::string& pattern) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>(spdlog::pattern_time_type::utc);
  formatter->add_flag<TextAsEvent>('*', format).set_pattern(pattern);
  return formatter;
}

// Passes lines to the log's thread, where spdlog's own sink would wait for the reader of stderr,
// and all threads that log for that one.
class WriterSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  WriterSink(LogWriter& writer, std::unique_ptr<spdlog::formatter> formatter)
      : base_sink(std::move(formatter)), writer_(writer) {}

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer_.Write(std::string(line.data(), line.size()));
  }
  // StopLog() does.
  void flush_() override {}

  LogWriter& writer_;
};

LogWriter::Report LeftOutReport(LogFormat format, const std::string& pattern) {
  return [format, formatter = std::shared_ptr<spdlog::formatter>(NewFormatter(format, pattern))](
             std::size_t left_out) {
    const std::string text = FormatLogLine(
        format, "log lines were left out: the reader of stderr is too slow", {{"lines", left_out}});
    spdlog::memory_buf_t line;
    formatter->format(spdlog::details::log_msg(kEventLogger, spdlog::level::warn, text), line);
    return std::string(line.data(), line.size());
  };
}

// The lines before an abort, such as a failed assertion, are still written. Everything here may be
// called by a signal handler.
void WaitForLines(int /*signal*/) {
  const LogWriter* const writer = log_writer.load();
  const std::int64_t most_ms = absl::ToInt64Milliseconds(limits::kLogFlushTime);
  for (std::int64_t ms = 0; writer->pending() > 0 && ms < most_ms; ++ms) poll(nullptr, 0, 1);
  // With the default action, once this returns: the signal may be another process's, and no
  // abort().
  raise(SIGABRT);
}

void WaitForLinesBeforeAbort() {
  struct sigaction action {};
  action.sa_handler = &WaitForLines;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGABRT, &action, nullptr);
}

}  // namespace

std::string FormatLogLine(LogFormat format, absl::string_view event,
                          std::initializer_list<LogField> fields) {
  LineWriter writer(format);
  writer.Event(event);
  for (const LogField& field : fields) writer.Field(field);
  return std::move(writer).Line();
}

void StartLog(LogLevel level, LogFormat format) {
  log_format = format;
  const bool json = format == LogFormat::kJson;
  const std::string head = json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","severity":"%l",)"
                                : "time=%Y-%m-%dT%H:%M:%S.%eZ level=%l ";
  // Events already consist of pairs. All other log output of the process is
  // text, which becomes one pair.
  const std::string event = head + (json ? "%v}" : "%v");
  log_writer = std::make_unique<LogWriter>(STDERR_FILENO, LeftOutReport(format, event)).release();
  WaitForLinesBeforeAbort();
  const auto sink = [&](const std::string& pattern) {
    return std::make_shared<WriterSink>(*log_writer.load(), NewFormatter(format, pattern));
  };
  const auto events = std::make_shared<spdlog::logger>(kEventLogger, sink(event));
  const auto texts = std::make_shared<spdlog::logger>("", sink(head + (json ? "%*}" : "%*")));
  events->set_level(ToSpdlog(level));
  texts->set_level(ToSpdlog(level));
  spdlog::register_logger(events);
  spdlog::set_default_logger(texts);
  LogWhatGrpcLogs();
}

bool StopLog() {
  LogWriter* const writer = log_writer.load();
  if (writer == nullptr) return true;
  if (writer->Flush(limits::kLogFlushTime)) return writer->Close(absl::ZeroDuration());
  // Its thread may be in a write that does not end. Neither is destroyed.
  writer->Abandon();
  return false;
}

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  const std::shared_ptr<spdlog::logger> logger = spdlog::get(kEventLogger);
  const spdlog::level::level_enum spdlog_level = ToSpdlog(level);
  if (logger == nullptr || !logger->should_log(spdlog_level)) return;
  logger->log(spdlog_level, spdlog::string_view_t(FormatLogLine(log_format, event, fields)));
}

}  // namespace idempotency::internal

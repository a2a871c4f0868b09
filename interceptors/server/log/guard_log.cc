#include "interceptors/server/log/guard_log.h"

#include <spdlog/spdlog.h>

#include <exception>
#include <utility>

#include "core/utf8.h"

namespace idempotency {
namespace {

// What an application throws may be of any length.
constexpr std::size_t kMaxLineBytes = 2 * 1024;

// Some of it comes from callers and from the application: it must not begin
// lines of its own, nor move the cursor.
std::string Printable(std::string_view text) {
  std::string line = ToUtf8(text);
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < 0x20 || byte == 0x7f) line[i] = ' ';
    // U+0080 to U+009F.
    if (byte == 0xc2 && i + 1 < line.size() && static_cast<unsigned char>(line[i + 1]) < 0xa0) {
      line[i] = line[i + 1] = ' ';
    }
  }
  return std::string(Utf8Prefix(line, kMaxLineBytes));
}

void ToSpdlog(LogSeverity severity, std::string_view line) {
  switch (severity) {
    case LogSeverity::kInfo:
      spdlog::info("{}", line);
      return;
    case LogSeverity::kWarning:
      spdlog::warn("{}", line);
      return;
    case LogSeverity::kError:
      spdlog::error("{}", line);
      return;
  }
}

}  // namespace

GuardLog::GuardLog(LogSink sink, const Clock& clock)
    : sink_(sink ? std::move(sink) : LogSink(&ToSpdlog)), clock_(clock) {
  for (auto& throttle : throttles_) throttle = std::make_unique<LogThrottle>(clock);
}

const std::shared_ptr<GuardLog>& GuardLog::Default() {
  static const auto log = std::make_shared<GuardLog>();
  return log;
}

std::shared_ptr<GuardLog> GuardLog::ForMethod() const {
  return std::make_shared<GuardLog>(sink_, clock_);
}

void GuardLog::Once(LogSeverity severity, std::string_view line) const {
  Write(severity, std::string(line), /*left_out=*/0);
}

void GuardLog::Write(LogSeverity severity, std::string line, std::int64_t left_out) const {
  line = Printable(line);
  if (left_out > 0) absl::StrAppend(&line, " (", left_out, " more were left out)");
  try {
    sink_(severity, line);
  } catch (...) {
    // There is nowhere to tell it.
  }
}

}  // namespace idempotency

#include "core/application_log.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "core/utf8.h"

namespace idempotency::internal {
namespace {

// An application's exception text may have any length.
constexpr std::size_t kMaxLineBytes = 2 * 1024;

// Parts of it come from callers and from the application: they must not begin a
// new line, nor move the cursor.
std::string Printable(std::string_view text) {
  const std::string line = WithoutControls(ToUtf8(text));
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

ApplicationLog::ApplicationLog(LogSink sink) : sink_(sink ? std::move(sink) : LogSink(&ToSpdlog)) {}

void ApplicationLog::Write(LogSeverity severity, std::string_view line,
                           std::string_view end) const {
  try {
    std::string whole = Printable(line);
    whole.append(end);
    sink_(severity, whole);
  } catch (...) {
    // There is no place to report it.
  }
}

}  // namespace idempotency::internal

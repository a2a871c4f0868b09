#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_LOG_GUARD_LOG_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_LOG_GUARD_LOG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "core/application_log.h"
#include "core/clock.h"
#include "core/log_throttle.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency::internal {

// The subject of a line of the guard's.
enum class LogEvent {
  kKeyReused,
  kInvalidParent,
  kInvalidTrace,
  kUnguardedCall,
  kInterceptorMissing,
  kApplicationThrew,
  kInvalidFingerprint,
  kRequestRefused,
  kLateGrant,
  kReservationLost,
  kNotReleased,
  kNotRecorded,
  kReplyNotKept,
  kInvalidReference,
  kUnreadableReply,
  kLoaderFailed,
  kAbandoned,
  kLedgerUnavailable,
  kLedgerRowNotWritten,
  kLedgerDisagrees,
  kFoundInLedger,
  kRecovered,
  kRecoveryFailed,
  kRecoveryPostponed,
};
inline constexpr std::size_t kLogEvents =
    static_cast<std::size_t>(LogEvent::kRecoveryPostponed) + 1;

// The log of a guard, or of one of its methods. A caller can cause any number of the events
// that happen while calls are served; so for each event one line a second is written, with the
// number of lines omitted before it. The line is composed only if it is written. Thread-safe.
class GuardLog {
 public:
  // An empty `sink` is spdlog's default logger. `clock` outlives it.
  explicit GuardLog(LogSink sink = nullptr, const Clock& clock = Clock::System());
  explicit GuardLog(ApplicationLog log, const Clock& clock = Clock::System());
  GuardLog(const GuardLog&) = delete;
  GuardLog& operator=(const GuardLog&) = delete;

  // Writes to spdlog's default logger; shared by all objects that have no other log.
  static const std::shared_ptr<GuardLog>& Default();
  // The lines of `event` in `log`, for code that sees the public headers only.
  static LogSink SinkFor(std::shared_ptr<GuardLog> log, LogEvent event);
  // `sink`, or the lines of `event` in Default() if it is empty.
  static LogSink SinkOr(LogSink sink, LogEvent event);

  // The same sink, with separate counts for each event: calls of one method suppress no line
  // about another.
  std::shared_ptr<GuardLog> ForMethod() const;

  template <typename... Parts>
  void Info(LogEvent event, const Parts&... parts) {
    Write(LogSeverity::kInfo, event, parts...);
  }
  template <typename... Parts>
  void Warn(LogEvent event, const Parts&... parts) {
    Write(LogSeverity::kWarning, event, parts...);
  }
  template <typename... Parts>
  void Error(LogEvent event, const Parts&... parts) {
    Write(LogSeverity::kError, event, parts...);
  }

  // For events that happen once in a guard's life: not throttled.
  void Once(LogSeverity severity, std::string_view line) const;

 private:
  template <typename... Parts>
  void Write(LogSeverity severity, LogEvent event, const Parts&... parts) {
    const std::optional<std::int64_t> left_out =
        throttles_[static_cast<std::size_t>(event)]->Admit();
    if (left_out.has_value()) Write(severity, absl::StrCat(parts...), *left_out);
  }
  void Write(LogSeverity severity, std::string_view line, std::int64_t left_out) const;

  const ApplicationLog log_;
  const Clock& clock_;
  std::array<std::unique_ptr<LogThrottle>, kLogEvents> throttles_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_LOG_GUARD_LOG_H_

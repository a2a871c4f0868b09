#ifndef IDEMPOTENCY_CORE_APPLICATION_LOG_H_
#define IDEMPOTENCY_CORE_APPLICATION_LOG_H_

#include <string_view>

#include "grpc_idempotency/log_sink.h"

namespace idempotency::internal {

// The log of the libraries in an application's process: their only access to its
// logger. Thread-safe.
class ApplicationLog {
 public:
  // An empty `sink` is spdlog's default logger.
  explicit ApplicationLog(LogSink sink = nullptr);

  // Writes one line, followed by `end`: text of callers and of the application cannot
  // begin a new line, nor move the cursor, and is cut before `end`.
  void Write(LogSeverity severity, std::string_view line, std::string_view end = {}) const;

 private:
  LogSink sink_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_APPLICATION_LOG_H_

#ifndef IDEMPOTENCY_CORE_APPLICATION_LOG_H_
#define IDEMPOTENCY_CORE_APPLICATION_LOG_H_

#include <string_view>

#include "grpc_idempotency/log_sink.h"

namespace idempotency::internal {

// Where the libraries in an application's process log: the only way to its logger.
// Thread-safe.
class ApplicationLog {
 public:
  // An empty `sink` is spdlog's default logger.
  explicit ApplicationLog(LogSink sink = nullptr);

  // One line, with `end` behind it: text of callers' and of the application's begins no
  // line of its own, moves no cursor, and is cut before `end`.
  void Write(LogSeverity severity, std::string_view line, std::string_view end = {}) const;

 private:
  LogSink sink_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_APPLICATION_LOG_H_

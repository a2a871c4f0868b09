#ifndef IDEMPOTENCY_CLIENT_TESTING_LOG_LINES_H_
#define IDEMPOTENCY_CLIENT_TESTING_LOG_LINES_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/mutex.h"
#include "grpc_idempotency/log_sink.h"

namespace idempotency::internal::testing {

// The lines of the application's log. Thread-safe.
class LogLines {
 public:
  LogSink Sink() {
    return [this](LogSeverity, std::string_view line) {
      MutexLock lock(mutex_);
      lines_.emplace_back(line);
    };
  }
  // The lines that contain `part`.
  std::size_t Count(std::string_view part) {
    MutexLock lock(mutex_);
    return std::count_if(lines_.begin(), lines_.end(), [&](const std::string& line) {
      return line.find(part) != std::string::npos;
    });
  }
  std::size_t count() { return Count(""); }
  std::vector<std::string> All() {
    MutexLock lock(mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_CLIENT_TESTING_LOG_LINES_H_

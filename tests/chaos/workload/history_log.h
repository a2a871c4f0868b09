#ifndef IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HISTORY_LOG_H_
#define IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HISTORY_LOG_H_

#include <string>

#include "tests/chaos/workload/history_line.h"

namespace idempotency::internal::testing {

// A file of a history, written by this process alone. Each line is one write, so
// that a kill leaves at most a last line without its end. A line that cannot be
// written ends the process: a history with holes proves nothing. Thread-safe.
class HistoryLog {
 public:
  // Creates the file. Aborts if it exists already, or cannot be created.
  explicit HistoryLog(const std::string& path);
  ~HistoryLog();
  HistoryLog(const HistoryLog&) = delete;
  HistoryLog& operator=(const HistoryLog&) = delete;

  void Append(const HistoryLine& line);
  // Returns once the line, and all before it, are on disk.
  void AppendDurably(const HistoryLine& line);

 private:
  const int file_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_CHAOS_WORKLOAD_HISTORY_LOG_H_

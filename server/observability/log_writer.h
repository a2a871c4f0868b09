#ifndef IDEMPOTENCY_SERVER_OBSERVABILITY_LOG_WRITER_H_
#define IDEMPOTENCY_SERVER_OBSERVABILITY_LOG_WRITER_H_

#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "server/limits.h"

namespace idempotency::internal {

// Writes lines to a descriptor on a thread of its own: a reader that does not read delays nobody
// who logs, and costs lines. So does a disk without space: a line after one that was written in
// part begins on a new line, and the lines that were lost are counted.
//
// Thread-safe.
class LogWriter {
 public:
  // A line that reports how many were left out before it.
  using Report = std::function<std::string(std::size_t left_out)>;

  // `descriptor` outlives it. Of more than `max_lines` the oldest are left out.
  LogWriter(int descriptor, Report report, std::size_t max_lines = limits::kMaxQueuedLogLines);
  // As Close(), without time.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // The line, with its end, is written later; after Close() it is discarded.
  void Write(std::string line) ABSL_LOCKS_EXCLUDED(mutex_);

  // Waits until every line is written; false after `timeout`.
  bool Flush(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  // Flush(), then ends the thread, and discards what is left.
  bool Close(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mutex_);
  // Discards what is left, and does not wait for the thread, which may be in a write that does not
  // end: a terminal, or a pipe with other writers. For a writer that is never destroyed.
  void Abandon() ABSL_LOCKS_EXCLUDED(mutex_);

  // Lines that are not written. For a signal handler too.
  std::size_t pending() const { return pending_.load(std::memory_order_acquire); }

 private:
  // What is written at once.
  struct Next {
    // Empty: end.
    std::string text;
    // The lines that it reports as left out, in its first `report_bytes`.
    std::size_t left_out = 0;
    std::size_t report_bytes = 0;
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for a line.
  Next AwaitNext() ABSL_LOCKS_EXCLUDED(mutex_);
  // The bytes that were written: fewer if nobody can read them, there is no space for them, or the
  // writer is to end.
  std::size_t WriteNow(std::string_view text) const;
  // After a write of which that much succeeded.
  void Written(const Next& next, std::size_t bytes) ABSL_LOCKS_EXCLUDED(mutex_);
  void RequestEnd() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int descriptor_;
  const Report report_;
  const std::size_t max_lines_;
  // Readable once the thread is to end.
  const int stop_;
  std::atomic<std::size_t> pending_{0};

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  std::size_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last line was written in part.
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_OBSERVABILITY_LOG_WRITER_H_

#include "tests/chaos/workload/history_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

namespace idempotency::internal::testing {
namespace {

void OrAbort(bool done) {
  if (done) return;
  std::cerr << "the history cannot be written\n";
  std::abort();
}

}  // namespace

HistoryLog::HistoryLog(const std::string& path)
    : file_(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644)) {
  OrAbort(file_ >= 0);
}

HistoryLog::~HistoryLog() { close(file_); }

void HistoryLog::Append(const HistoryLine& line) {
  const std::string text = line.ToString();
  OrAbort(write(file_, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

void HistoryLog::AppendDurably(const HistoryLine& line) {
  Append(line);
  OrAbort(fdatasync(file_) == 0);
}

}  // namespace idempotency::internal::testing

#ifndef IDEMPOTENCY_TESTS_SUPPORT_PROCESS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"

#include "core/mutex.h"

namespace idempotency::internal::testing {

// How a process ended.
struct ExitStatus {
  // The exit code; nullopt if a signal ended it.
  std::optional<int> code;
  std::optional<int> signal;
};

// A real child process, with its output kept. Ends with the object (SIGKILL).
// Thread-safe.
class Process {
 public:
  using Seconds = std::chrono::duration<double>;

  // `arguments[0]` is the binary: a path, or the name of a program of this build (ProgramPath()).
  // FAILED_PRECONDITION for a program of this build that the test does not name, and if nothing
  // would end the child with the test (RunUnderSubreaper()).
  static absl::StatusOr<std::unique_ptr<Process>> Start(
      std::vector<std::string> arguments, std::map<std::string, std::string> environment = {});
  ~Process();

  pid_t pid() const { return pid_; }
  // Waits for a line of stdout that starts with `prefix` and returns it. DEADLINE_EXCEEDED, or
  // FAILED_PRECONDITION if the process ended first; both with its output.
  absl::StatusOr<std::string> WaitForLine(std::string prefix, Seconds limit = Seconds(30));
  // The same for a line that contains `text`.
  absl::StatusOr<std::string> WaitForText(std::string text, Seconds limit = Seconds(30));
  void Signal(int signal);
  // To it and those of its children that are in its process group.
  void SignalGroup(int signal);
  // SIGSTOP, and waits until every thread has stopped. Signal(SIGCONT) ends it.
  void Freeze();
  // Waits for the end. DEADLINE_EXCEEDED if it did not end in time.
  absl::StatusOr<ExitStatus> Wait(Seconds limit = Seconds(30));
  // SIGKILL, and wait.
  void Kill();
  // Its output so far.
  std::string Stdout();
  std::string Stderr();

 private:
  Process(pid_t pid, int out, int err);
  void Read(int fd, std::string* into);
  // The first whole line of stdout that `wanted` accepts.
  absl::StatusOr<std::string> WaitForOne(const std::function<bool(const std::string&)>& wanted,
                                         const std::string& what, Seconds limit);

  const pid_t pid_;
  Mutex mutex_;
  CondVar changed_;
  std::string stdout_ ABSL_GUARDED_BY(mutex_);
  std::string stderr_ ABSL_GUARDED_BY(mutex_);
  int open_pipes_ ABSL_GUARDED_BY(mutex_) = 2;
  std::optional<ExitStatus> exit_ ABSL_GUARDED_BY(mutex_);
  std::thread read_stdout_;
  std::thread read_stderr_;
  std::thread wait_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_PROCESS_H_

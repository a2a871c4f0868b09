#include "tests/support/process.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "tests/support/programs.h"
#include "tests/support/subreaper.h"

extern char** environ;

namespace idempotency::internal::testing {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

SteadyTime After(Process::Seconds limit) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);
}

absl::StatusOr<std::string> Resolve(const std::string& binary) {
  const bool is_path = absl::StrContains(binary, '/');
  if (is_path && MayStart(binary)) return binary;
  return ProgramPath(is_path ? std::filesystem::path(binary).filename().string() : binary);
}

std::vector<std::string> Environment(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string name = std::string(*entry).substr(0, std::strcspn(*entry, "="));
    if (extra.find(name) == extra.end()) all.emplace_back(*entry);
  }
  for (const auto& [name, value] : extra) all.push_back(absl::StrCat(name, "=", value));
  return all;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Process>> Process::Start(
    std::vector<std::string> arguments, std::map<std::string, std::string> environment) {
  if (!IsUnderSubreaper()) {
    return absl::FailedPreconditionError(
        "nothing would end it with this process: call RunUnderSubreaper() in main()");
  }
  absl::StatusOr<std::string> binary = Resolve(arguments[0]);
  if (!binary.ok()) return binary.status();
  arguments[0] = *std::move(binary);
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  // The read ends must not leak into other children: a pipe that another process holds open never
  // ends.
  if (pipe2(out.data(), O_CLOEXEC) != 0) return absl::InternalError("no pipe for stdout");
  if (pipe2(err.data(), O_CLOEXEC) != 0) return absl::InternalError("no pipe for stderr");
  std::vector<std::string> variables = Environment(environment);
  std::vector<char*> argv = Pointers(arguments);
  std::vector<char*> envp = Pointers(variables);
  // Not fork: other threads of this process may hold the allocator's locks, and a build with
  // coverage writes its counts between fork and exec.
  // In a process group of its own it gets no Ctrl-C of the test's.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err[1], STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  close(out[1]);
  close(err[1]);
  if (error != 0) {
    close(out[0]);
    close(err[0]);
    return absl::InternalError(
        absl::StrCat("cannot start ", arguments[0], ": ", std::strerror(error)));
  }
  return std::unique_ptr<Process>(new Process(pid, out[0], err[0]));
}

Process::Process(pid_t pid, int out, int err)
    : pid_(pid),
      read_stdout_([this, out] { Read(out, &stdout_); }),
      read_stderr_([this, err] { Read(err, &stderr_); }),
      wait_([this] {
        pthread_setname_np(pthread_self(), "process-wait");
        int status = 0;
        while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        ExitStatus exit;
        if (WIFEXITED(status)) exit.code = WEXITSTATUS(status);
        if (WIFSIGNALED(status)) exit.signal = WTERMSIG(status);
        MutexLock lock(mutex_);
        exit_ = exit;
        changed_.NotifyAll();
      }) {}

Process::~Process() {
  Kill();
  read_stdout_.join();
  read_stderr_.join();
  wait_.join();
}

void Process::Read(int fd, std::string* into) {
  pthread_setname_np(pthread_self(), "process-read");
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    MutexLock lock(mutex_);
    if (n <= 0) {
      --open_pipes_;
      changed_.NotifyAll();
      break;
    }
    into->append(buffer.data(), static_cast<std::size_t>(n));
    changed_.NotifyAll();
  }
  close(fd);
}

absl::StatusOr<std::string> Process::WaitForLine(std::string prefix, Seconds limit) {
  return WaitForOne([&](const std::string& line) { return absl::StartsWith(line, prefix); }, prefix,
                    limit);
}

absl::StatusOr<std::string> Process::WaitForText(std::string text, Seconds limit) {
  return WaitForOne([&](const std::string& line) { return absl::StrContains(line, text); }, text,
                    limit);
}

absl::StatusOr<std::string> Process::WaitForOne(
    const std::function<bool(const std::string&)>& wanted, const std::string& what, Seconds limit) {
  const SteadyTime deadline = After(limit);
  MutexLock lock(mutex_);
  while (true) {
    std::vector<std::string> lines = absl::StrSplit(stdout_, '\n');
    lines.pop_back();  // not ended yet
    for (const std::string& line : lines) {
      if (wanted(line)) return line;
    }
    const std::string printed = absl::StrCat("\nstdout: ", stdout_, "\nstderr: ", stderr_);
    if (exit_.has_value() && open_pipes_ == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("ended before it printed '", what, "'", printed));
    }
    if (!changed_.WaitUntil(lock, deadline) && std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat("did not print '", what, "'", printed));
    }
  }
}

void Process::Signal(int signal) {
  MutexLock lock(mutex_);
  // Not after its end: the number may be another process's by then.
  if (!exit_.has_value()) kill(pid_, signal);
}

void Process::SignalGroup(int signal) {
  MutexLock lock(mutex_);
  if (!exit_.has_value()) kill(-pid_, signal);
}

void Process::Freeze() {
  Signal(SIGSTOP);
  // The kernel reports the stop once the last thread has stopped.
  siginfo_t stopped{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED) != 0 && errno == EINTR) {
  }
}

absl::StatusOr<ExitStatus> Process::Wait(Seconds limit) {
  const SteadyTime deadline = After(limit);
  MutexLock lock(mutex_);
  while (!exit_.has_value() || open_pipes_ != 0) {
    if (!changed_.WaitUntil(lock, deadline) && std::chrono::steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("did not end\nstdout: ", stdout_, "\nstderr: ", stderr_));
    }
  }
  return *exit_;
}

void Process::Kill() {
  Signal(SIGKILL);
  Wait().status().IgnoreError();
}

std::string Process::Stdout() {
  MutexLock lock(mutex_);
  return stdout_;
}

std::string Process::Stderr() {
  MutexLock lock(mutex_);
  return stderr_;
}

}  // namespace idempotency::internal::testing

#include "tests/support/subreaper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace idempotency::internal::testing {
namespace {

bool under_subreaper = false;

void OrAbort(bool done, const char* what) {
  if (done) return;
  std::perror(what);
  std::abort();
}

// The value of a line of /proc/self/status.
std::string OwnStatus(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(name + ":\t", 0) == 0) return line.substr(name.size() + 2);
  }
  return "";
}

// The test handles the signals that request these from this process.
sigset_t Forwarded() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    sigaddset(&set, signal);
  }
  return set;
}

// Ends this process with the test's status.
[[noreturn]] void EndAs(int status) {
  if (WIFSIGNALED(status)) {
    // The dump, if one is written, is the test's.
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    const int number = WTERMSIG(status);
    std::signal(number, SIG_DFL);
    sigset_t ours;
    sigemptyset(&ours);
    sigaddset(&ours, number);
    sigprocmask(SIG_UNBLOCK, &ours, nullptr);
    kill(getpid(), number);
  }
  _exit(WEXITSTATUS(status));
}

// The children of this process, started by it or adopted from the kernel.
std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    // Not by the buffer's iterators, which throw when the process ends meanwhile.
    std::ostringstream content;
    content << file.rdbuf();
    const std::string stat = content.str();
    // The name in parentheses may contain anything; the state and the parent follow it.
    const std::size_t end = stat.rfind(')');
    if (end == std::string::npos || stat.size() < end + 4) continue;
    if (std::atoi(stat.c_str() + end + 4) == getpid()) children.push_back(std::stoi(name));
  }
  return children;
}

// Every descendant. One whose parent ends here becomes a child of this process before that parent
// can be waited for, so none is missed.
void KillTheRest() {
  while (true) {
    for (const pid_t child : Children()) kill(child, SIGKILL);
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

// Reaps ended processes. If the test is among them, kills the rest and ends with its status.
void Reap(pid_t test) {
  int status = 0;
  for (pid_t ended = waitpid(-1, &status, WNOHANG); ended > 0;
       ended = waitpid(-1, &status, WNOHANG)) {
    if (ended != test) continue;
    KillTheRest();
    EndAs(status);
  }
}

// `caller` is readable once the original process has ended.
[[noreturn]] void Subreap(pid_t test, int caller, int signals) {
  // A signal to the group of the test, as SIGKILL by timeout(1), is not for this process.
  setpgid(0, 0);
  while (true) {
    std::array<pollfd, 2> events = {pollfd{caller, POLLIN, 0}, pollfd{signals, POLLIN, 0}};
    if (poll(events.data(), events.size(), -1) < 0) continue;
    if (events[0].revents != 0) {
      KillTheRest();
      _exit(EXIT_FAILURE);
    }
    signalfd_siginfo signal{};
    while (read(signals, &signal, sizeof(signal)) == sizeof(signal)) {
      if (signal.ssi_signo != SIGCHLD) kill(test, static_cast<int>(signal.ssi_signo));
    }
    Reap(test);
  }
}

// Ends as the subreaper does, and so as the test.
[[noreturn]] void WaitFor(pid_t subreaper) {
  sigset_t awaited = Forwarded();
  sigaddset(&awaited, SIGCHLD);
  while (true) {
    siginfo_t info{};
    const int number = sigwaitinfo(&awaited, &info);
    // The terminal's are for the whole group, which contains the test.
    if (number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL) kill(subreaper, number);
    int status = 0;
    if (waitpid(subreaper, &status, WNOHANG) == subreaper) EndAs(status);
  }
}

}  // namespace

void RunUnderSubreaper() {
  under_subreaper = true;
  const char* const above = std::getenv(kSubreaperVariable);
  if ((above != nullptr && *above != '\0') || OwnStatus("TracerPid") != "0") return;

  sigset_t ours = Forwarded();
  sigaddset(&ours, SIGCHLD);
  sigset_t before;
  OrAbort(sigprocmask(SIG_BLOCK, &ours, &before) == 0, "sigprocmask");
  // Only the original process has its write end, which is closed when that process ends.
  std::array<int, 2> caller{};
  OrAbort(pipe2(caller.data(), O_CLOEXEC) == 0, "pipe2");

  const pid_t subreaper = fork();
  OrAbort(subreaper >= 0, "fork");
  if (subreaper > 0) {
    close(caller[0]);
    WaitFor(subreaper);
  }

  close(caller[1]);
  OrAbort(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl");
  const int signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
  OrAbort(signals >= 0, "signalfd");
  const pid_t parent = getpid();
  const pid_t test = fork();
  OrAbort(test >= 0, "fork");
  if (test > 0) Subreap(test, caller[0], signals);

  close(caller[0]);
  close(signals);
  // Applies here: the parent has one thread, and nothing changes this process's user.
  OrAbort(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "prctl");
  if (getppid() != parent) _exit(EXIT_FAILURE);
  OrAbort(sigprocmask(SIG_SETMASK, &before, nullptr) == 0, "sigprocmask");
  OrAbort(setenv(kSubreaperVariable, std::to_string(parent).c_str(), 1) == 0, "setenv");
}

bool IsUnderSubreaper() { return under_subreaper; }

}  // namespace idempotency::internal::testing

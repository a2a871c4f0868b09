#ifndef IDEMPOTENCY_TESTS_SUPPORT_BLOCKING_CALL_H_
#define IDEMPOTENCY_TESTS_SUPPORT_BLOCKING_CALL_H_

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace idempotency::internal::testing {

// Runs a function on a thread of its own. A test can wait until that thread blocks, where there is
// no other sign of it: after a fixed time a slow machine may not even have begun.
//
// Get() or the destruction joins the thread: let the function end first. For the test's thread.
template <typename Result>
class BlockingCall {
 public:
  explicit BlockingCall(std::function<Result()> function)
      : task_(std::move(function)), result_(task_.get_future()) {
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "blocking-call");
      id_.set_value(syscall(SYS_gettid));
      task_();
    });
  }
  ~BlockingCall() { Join(); }
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

  // Waits until the thread sleeps in the kernel, and stays there while it is looked at often: it
  // may sleep briefly on its way. False if the function has returned instead. Once only.
  bool AwaitBlocked() {
    const std::string file = absl::StrCat("/proc/self/task/", id_.get_future().get(), "/status");
    std::string before;
    for (int looks = 0; looks < kLooks && !Returned();) {
      const std::string now = SleepingState(file);
      looks = !now.empty() && now == before ? looks + 1 : 0;
      before = now;
      std::this_thread::yield();
    }
    return !Returned();
  }

  bool Returned() const {
    return result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  Result Get() {
    Join();
    return result_.get();
  }

 private:
  // In a row, without a run of the thread in between. Few enough for one pause of a function that
  // tries again by itself, also where a look takes long.
  static constexpr int kLooks = 5;

  void Join() {
    if (thread_.joinable()) thread_.join();
  }
  // How often the thread has given its processor up, if it sleeps now; otherwise empty.
  static std::string SleepingState(const std::string& file) {
    std::ifstream status(file);
    bool sleeps = false;
    for (std::string line; std::getline(status, line);) {
      if (absl::StartsWith(line, "State:")) sleeps = absl::StrContains(line, "S (sleeping)");
      if (absl::StartsWith(line, "voluntary_ctxt_switches:")) return sleeps ? line : "";
    }
    return "";
  }

  std::packaged_task<Result()> task_;
  std::future<Result> result_;
  std::promise<long> id_;
  std::thread thread_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_BLOCKING_CALL_H_

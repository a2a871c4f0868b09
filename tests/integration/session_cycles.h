#ifndef IDEMPOTENCY_TESTS_INTEGRATION_SESSION_CYCLES_H_
#define IDEMPOTENCY_TESTS_INTEGRATION_SESSION_CYCLES_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "grpc_idempotency/client/connection.h"
#include "tests/support/service_client.h"

namespace idempotency::internal::testing {

// Reserves and completes continuously, some records at a time. Each operation that fails fails the
// test. Thread-safe.
class SessionCycles {
 public:
  explicit SessionCycles(Connection& connection) : connection_(connection) {
    for (int i = 0; i < kInFlight; ++i) Next();
  }
  // Waits for operations that are under way.
  ~SessionCycles() {
    MutexLock lock(mutex_);
    stopping_ = true;
    while (under_way_ > 0) changed_.Wait(lock);
  }

  int failed() const { return failed_; }
  int done() const { return done_; }
  // False after 20 s.
  bool AwaitMore(int count) {
    MutexLock lock(mutex_);
    const int wanted = done_ + count;
    const auto deadline = In(std::chrono::seconds(20));
    while (done_ < wanted && changed_.WaitUntil(lock, deadline)) {
    }
    return done_ >= wanted;
  }

 private:
  static constexpr int kInFlight = 32;

  static Connection::Deadline In(std::chrono::steady_clock::duration wait) {
    return std::chrono::steady_clock::now() + wait;
  }
  void Next() {
    std::string key;
    {
      MutexLock lock(mutex_);
      if (stopping_) return;
      ++under_way_;
      key = absl::StrCat("cycle-", ++keys_);
    }
    connection_.Reserve(
        SomeReserve(key), In(std::chrono::seconds(10)), [this, key](const auto& answer) {
          // A repeat of a granted request is granted again: never in_flight, which would mean that
          // the token was not kept.
          if (!answer.ok() || !answer->has_reserved()) {
            return End(answer.ok() ? answer->ShortDebugString() : answer.status().ToString());
          }
          connection_.Complete(SomeComplete(key, answer->reserved().reservation_token(), "reply"),
                               In(std::chrono::seconds(10)), [this](const auto& completed) {
                                 End(completed.ok() ? "" : completed.status().ToString());
                               });
        });
  }
  void End(const std::string& failure) {
    if (!failure.empty()) ADD_FAILURE() << failure;
    ++(failure.empty() ? done_ : failed_);
    Next();
    MutexLock lock(mutex_);
    --under_way_;
    changed_.NotifyAll();
  }

  Connection& connection_;
  std::atomic<int> done_{0};
  std::atomic<int> failed_{0};
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
  int keys_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_INTEGRATION_SESSION_CYCLES_H_

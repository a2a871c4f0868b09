#include "client/connection/outstanding_calls.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/fatal.h"

namespace idempotency::internal {

OutstandingCalls::~OutstandingCalls() {
  Require(size() == 0, "a connection to idempotencyd is destroyed with calls in progress");
}

void OutstandingCalls::Add(std::shared_ptr<Call> call) {
  MutexLock lock(mutex_);
  const Call* key = call.get();
  calls_.emplace(key, Outstanding{next_number_++, std::move(call)});
  ++outstanding_;
}

void OutstandingCalls::End(const Call* call) {
  std::shared_ptr<Call> ended;
  {
    MutexLock lock(mutex_);
    auto node = calls_.extract(call);
    Require(!node.empty(), "a call to idempotencyd ended twice");
    ended = std::move(node.mapped().call);
  }
  ended.reset();
  // Notified under the lock: once it is free the waiter may destroy this.
  MutexLock lock(mutex_);
  --outstanding_;
  ended_.NotifyAll();
}

void OutstandingCalls::CancelAndWait() {
  std::vector<Outstanding> calls;
  {
    MutexLock lock(mutex_);
    calls.reserve(calls_.size());
    for (const auto& [key, call] : calls_) calls.push_back(call);
  }
  std::sort(calls.begin(), calls.end(),
            [](const Outstanding& a, const Outstanding& b) { return a.number < b.number; });
  // Without the lock: a cancellation may run the call's callback right here.
  for (const Outstanding& each : calls) each.call->Cancel();
  calls.clear();
  MutexLock lock(mutex_);
  while (outstanding_ > 0) ended_.Wait(lock);
}

std::size_t OutstandingCalls::size() const {
  MutexLock lock(mutex_);
  return outstanding_;
}

}  // namespace idempotency::internal

#include "bench/closed_loop.h"

#include <algorithm>

namespace idempotency::internal::bench {

ClosedLoop::ClosedLoop(Workload& workload, LoadReport& report, const Options& options)
    : workload_(workload),
      report_(report),
      options_(options),
      slots_(static_cast<std::size_t>(options.in_flight)) {}

void ClosedLoop::Run() {
  const Time start = std::chrono::steady_clock::now();
  measure_from_ = start + absl::ToChronoNanoseconds(options_.warmup);
  end_ = measure_from_ + absl::ToChronoNanoseconds(options_.duration);
  {
    MutexLock lock(mutex_);
    running_ = slots_.size();
  }
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) Next(slot, start);
  Attend();
  const Time stopped = std::clamp(std::chrono::steady_clock::now(), measure_from_, end_);
  report_.set_measured_time(absl::FromChrono(stopped - measure_from_));
}

void ClosedLoop::Next(std::size_t slot, Time now) {
  if (now >= end_ || stop_.load(std::memory_order_relaxed)) return EndLane();
  const std::uint64_t number = next_.fetch_add(1, std::memory_order_relaxed);
  if (number >= options_.pieces) return EndLane();
  slots_[slot].started = now;
  workload_.Start(number, [this, slot](const absl::Status& status) { Ended(slot, status); });
}

void ClosedLoop::Ended(std::size_t slot, const absl::Status& status) {
  const Time now = std::chrono::steady_clock::now();
  if (status.ok()) {
    report_.Ended();
    if (now >= measure_from_ && now < end_) {
      report_.Measured(absl::FromChrono(now - slots_[slot].started));
    }
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    report_.Refused();
    return Pause(slot, now);
  } else if (report_.Failed(status) >= kMaxFailures) {
    stop_.store(true, std::memory_order_relaxed);
  }
  Next(slot, now);
}

// Notifies under the lock: the loop may be destroyed as soon as it is released.
void ClosedLoop::EndLane() {
  MutexLock lock(mutex_);
  if (--running_ == 0) changed_.NotifyAll();
}

void ClosedLoop::Pause(std::size_t slot, Time now) {
  MutexLock lock(mutex_);
  paused_.emplace_back(now + absl::ToChronoNanoseconds(kPause), slot);
  changed_.NotifyAll();
}

void ClosedLoop::Attend() {
  while (true) {
    std::size_t slot = 0;
    {
      MutexLock lock(mutex_);
      while (running_ > 0 && paused_.empty()) changed_.Wait(lock);
      if (running_ == 0) return;
      const Time end = paused_.front().first;
      while (changed_.WaitUntil(lock, end)) {
      }
      slot = paused_.front().second;
      paused_.pop_front();
    }
    Next(slot, std::chrono::steady_clock::now());
  }
}

}  // namespace idempotency::internal::bench

#include "bench/open_loop.h"

#include <sys/prctl.h>

#include <thread>

namespace idempotency::internal::bench {

OpenLoop::OpenLoop(Workload& workload, LoadReport& report, const Options& options)
    : workload_(workload), report_(report), options_(options), random_(options.seed) {}

void OpenLoop::Run() {
  // The kernel's default is 50 us late, which is as long as a replay takes.
  prctl(PR_SET_TIMERSLACK, 1UL);
  const Time start = std::chrono::steady_clock::now();
  measure_from_ = start + absl::ToChronoNanoseconds(options_.warmup);
  end_ = measure_from_ + absl::ToChronoNanoseconds(options_.duration);
  std::exponential_distribution<double> gap_seconds(options_.rate);
  Time due = start;
  for (std::uint64_t number = 0;; ++number) {
    due += std::chrono::nanoseconds(static_cast<std::int64_t>(gap_seconds(random_) * 1e9));
    if (due >= end_ || report_.failures() >= options_.max_failures) break;
    // Overdue pieces are started at once, one after the other.
    std::this_thread::sleep_until(due);
    StartPiece(number, due);
  }
  AwaitAll();
  report_.set_measured_time(options_.duration);
}

void OpenLoop::StartPiece(std::uint64_t number, Time due) {
  {
    MutexLock lock(mutex_);
    if (in_flight_ >= options_.max_in_flight) {
      report_.Shed();
      return;
    }
    ++in_flight_;
  }
  workload_.Start(number, [this, due](const absl::Status& status) { Ended(due, status); });
}

// A piece belongs to the time at which it was due, also if it ends later: those that a stall delays
// at the end are not lost.
void OpenLoop::Ended(Time due, const absl::Status& status) {
  const Time now = std::chrono::steady_clock::now();
  if (status.ok()) {
    report_.Ended();
    if (due >= measure_from_) report_.Measured(absl::FromChrono(now - due));
  } else if (status.code() == absl::StatusCode::kResourceExhausted) {
    report_.Refused();
  } else {
    report_.Failed(status);
  }
  MutexLock lock(mutex_);
  if (--in_flight_ == 0) ended_.NotifyAll();
}

void OpenLoop::AwaitAll() {
  MutexLock lock(mutex_);
  while (in_flight_ > 0) ended_.Wait(lock);
}

}  // namespace idempotency::internal::bench

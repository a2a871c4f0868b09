#ifndef IDEMPOTENCY_SERVER_SWEEPER_H_
#define IDEMPOTENCY_SERVER_SWEEPER_H_

#include <cstdint>
#include <random>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/observer.h"
#include "server/stop_latch.h"
#include "server/store/store.h"

namespace idempotency {

// Removes forgotten records in the background: passes over the whole store, in
// small batches with a pause after each, so that calls keep their share of it.
// Any number of replicas may run one; the store lets one sweep at a time.
//
// Destruction stops it. RunOnce() may be called from any thread.
class Sweeper {
 public:
  struct Options {
    // Between the end of a pass and the start of the next. The real time is
    // drawn from half of it to one and a half, and the first pass starts at a
    // moment drawn from the first interval, so that replicas started together
    // do not stay in step.
    absl::Duration interval = absl::Minutes(1);
    // 1,000 records every 50 ms is up to 20,000 a second: four times what a
    // Postgres under full load makes, at a small part of what it can delete.
    int batch = 1000;
    absl::Duration pause = absl::Milliseconds(50);
  };

  struct Pass {
    std::int64_t removed = 0;
    std::int64_t marked_unknown = 0;
    // Another replica was sweeping, or Stop() was called: not all was seen.
    bool cut_short = false;
  };

  // `store` and `observer` must outlive it.
  Sweeper(Store& store, Observer& observer, const Options& options);
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // Start the thread, at most once, and end it: Stop() returns after at most
  // one more batch, and may be repeated. Both are for the owner's thread.
  void Start();
  void Stop();

  // One pass on the calling thread. The store's error ends it; what was removed
  // until then stays removed, and the next pass starts from the lowest id.
  absl::StatusOr<Pass> RunOnce();

 private:
  void Run();
  // Draws from [low, high) times the interval.
  absl::Duration Jittered(double low, double high);

  Store& store_;
  Observer& observer_;
  const Options options_;
  std::minstd_rand random_;
  StopLatch stop_;
  std::thread thread_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_SWEEPER_H_

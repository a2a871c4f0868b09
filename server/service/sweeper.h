#ifndef IDEMPOTENCY_SERVER_SERVICE_SWEEPER_H_
#define IDEMPOTENCY_SERVER_SERVICE_SWEEPER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "server/observability/observer.h"
#include "server/service/periodic_thread.h"
#include "server/service/quiet_ranges.h"
#include "server/service/stop_latch.h"
#include "server/store/maintenance_store.h"

namespace idempotency::internal {

// Removes forgotten records in the background: passes over the whole store, in
// small steps with a pause after each, so that calls keep their share of it
// (docs/operations.md has the figures). A pass skips ranges for which the store
// reported that no record needs it yet. Any number of replicas may run a
// sweeper; the store allows one step at a time, and a pass waits for its turn.
//
// However long a pass takes, the ranges that the store names (SweepProgress::turns), such as that
// of the newest records, are walked by themselves beside it, about once in an interval.
//
// Destruction stops it. RunOnce() may be called from any thread, one at a time.
class Sweeper {
 public:
  struct Options {
    // Between the end of a pass and the start of the next. The real time is
    // drawn from half of it to one and a half, and the first pass starts at a
    // moment drawn from the first interval, so that replicas started together
    // do not stay synchronised.
    absl::Duration interval = absl::Minutes(1);
    // Records that one step reads.
    int batch = 500;
    // The pace. After a step the sweep pauses for at least `min_rest` times as
    // long as the step took: a busy, and so slow, store is swept less.
    double min_rest = 1;
    // While there are records to remove its rest is at most this many times the
    // step: on an idle store it is faster than the rate below.
    double max_rest = 9;
    // Records per second, while there are any to remove, and the time of
    // uninterrupted removal after which the rate grows by the same amount:
    // records that remain after five minutes arrive faster than that rate
    // removes them. 5 million are removed in about five minutes.
    double removals_per_second = 10'000;
    absl::Duration growth = absl::Minutes(5);
    // Records per second while there is nothing to remove.
    double visits_per_second = 10'000;
    // The maximum time for which a range counts as quiet: records that arrived
    // late or were recovered are found after this time at the latest. In a large or slow store
    // twice the time of a pass that reads all of it: else nothing would be skipped.
    absl::Duration trust = absl::Hours(3);
    // How many ranges it remembers, in about 10 MB. With more it joins neighbours.
    std::size_t max_quiet_ranges = 100'000;
    // A step that another replica's step refused is repeated after about this time, and after
    // double the time for each further one.
    absl::Duration turn_pause = absl::Milliseconds(50);
    // The namespaces that bound how long a record may be UNKNOWN, read at each pass. Null: none.
    std::function<std::map<std::string, absl::Duration>()> unknown_lives;
    // By which it measures steps and passes. Its pauses are real.
    const Clock* clock = &Clock::System();
  };

  struct Pass {
    std::int64_t removed = 0;
    std::int64_t marked_unknown = 0;
    std::int64_t entombed = 0;
    std::int64_t replies_dropped = 0;
    // UNKNOWN for longer than their namespace permits.
    std::int64_t unknown_ended = 0;
    // Records that were read.
    std::int64_t visited = 0;
    // Another replica was sweeping all the time, or Stop() was called: not all
    // records were read.
    bool cut_short = false;
  };

  // `store` and `observer` must outlive it.
  Sweeper(MaintenanceStore& store, Observer& observer, const Options& options);
  ~Sweeper();
  Sweeper(const Sweeper&) = delete;
  Sweeper& operator=(const Sweeper&) = delete;

  // Start the thread, at most once, and end it: Stop() returns after at most
  // one more step, and may be repeated. Both are for the owner's thread.
  void Start();
  void Stop();

  // One pass on the calling thread. An error of the store ends it, unless it is
  // of a namespace's UNKNOWN records: the pass then fails at its end. Removed
  // records stay removed, and the next pass starts from the lowest id.
  absl::StatusOr<Pass> RunOnce();

  // How long to pause after a step that took `took`, in a pass that has had
  // records to remove for `backlog` without an end.
  static absl::Duration PauseAfter(const SweepProgress& step, absl::Duration took,
                                   absl::Duration backlog, const Options& options);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  // A walk through a range. The first one is the pass through everything; those beside it are of
  // SweepProgress::turns, and continue in the next pass.
  struct Lane {
    bool under_way = false;
    // When it begins again.
    TimePoint due;
    SweepRange range;
    SweepOp op;
    // Since when each step found records to remove.
    std::optional<TimePoint> backlog_since;
  };

  // Before a pass over all records: UNKNOWN ones have an index of their own. The first error, of
  // which a namespace does not keep the others from being read.
  absl::Status EndUnknown(Pass& pass);
  absl::Status SweepAll(Pass& pass);
  // One step of the lane; the pause after it, or nullopt at the end of the pass.
  absl::StatusOr<std::optional<absl::Duration>> StepOf(Lane& lane, Pass& pass);
  // The pause before a step that another replica refused is repeated; nullopt ends the pass.
  std::optional<absl::Duration> AwaitTurn(Pass& pass);
  // Whose step is next: lanes under way or due take turns.
  Lane& NextLane(TimePoint now);
  void Begin(Lane& lane);
  void End(Lane& lane, TimePoint now);
  // Whether the lane stands at the end of its range, or behind it.
  static bool IsAtEnd(const Lane& lane);
  // A side lane for each range of `turns`.
  void NoteTurns(const std::vector<SweepRange>& turns, TimePoint now);
  // Draws from [low, high) times the interval.
  absl::Duration Jittered(double low, double high);
  // Notes until when the range of the step needs no other one.
  void Remember(const SweepOp& op, const SweepProgress& step, TimePoint now);
  // Options::trust, for as many records as there are, and as slow a store.
  absl::Duration Trust(TimePoint now) const;

  MaintenanceStore& store_;
  Observer& observer_;
  const Options options_;
  std::minstd_rand random_;
  QuietRanges quiet_;
  // Of all quiet ranges, at the beginning of the pass, or what the pass has read until now.
  std::int64_t known_records_ = 0;
  TimePoint pass_began_;
  // How long passes have walked since one reached the end, before this one.
  absl::Duration walked_;
  // Never empty.
  std::vector<Lane> lanes_;
  std::size_t last_lane_ = 0;
  // Steps that were refused, one after the other.
  int refused_ = 0;
  // Ends a pause within a pass.
  StopLatch stop_;
  std::optional<PeriodicThread> thread_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_SWEEPER_H_

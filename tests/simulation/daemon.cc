#include "tests/simulation/daemon.h"

#include <utility>

namespace idempotency::internal::simulation {

Daemon::Daemon(std::string name, std::int64_t drift_ppm, Nanos wall_error, Store& store,
               Scheduler& scheduler, const Plan& plan, const bool& store_away, Journal& journal)
    : process_(std::move(name), drift_ppm, wall_error),
      plan_(plan),
      store_(store, scheduler, plan, store_away, journal) {}

void Daemon::Start() {
  Sweeper::Options sweeping;
  sweeping.interval = absl::Seconds(3);
  sweeping.batch = 7;
  sweeper_.emplace(store_, observer_, sweeping);
  sweeper_->Start();
  BatcherOptions batching;
  batching.threads = plan_.batcher_threads;
  batching.min_batch_size = 3;
  batcher_.emplace(store_, observer_, batching);
  waiters_.emplace(*batcher_, observer_);
  OperationsOptions options;
  options.window = plan_.window();
  options.relaxed_reservations = true;
  operations_.emplace(*batcher_, *waiters_, observer_, options);
  sessions_.emplace(observer_);
  unread_answers_.emplace(*sessions_, batcher_->budget());
  serving_ = true;
}

void Daemon::Stop() {
  // A second request to stop, during its pause.
  if (!serving_) return;
  serving_ = false;
  sessions_->Drain();
  waiters_->Close();
  batcher_->Close();
  sweeper_->Stop();
}

}  // namespace idempotency::internal::simulation

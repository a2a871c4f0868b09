#include "server/sweeper.h"

#include <pthread.h>

#include <chrono>

#include "server/log.h"

namespace idempotency {

Sweeper::Sweeper(Store& store, Observer& observer, const Options& options)
    : store_(store), observer_(observer), options_(options), random_(std::random_device()()) {}

Sweeper::~Sweeper() { Stop(); }

void Sweeper::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "sweeper");
    Run();
  });
}

void Sweeper::Stop() {
  stop_.Stop();
  if (thread_.joinable()) thread_.join();
}

void Sweeper::Run() {
  absl::Duration wait = Jittered(0, 1);
  while (stop_.WaitFor(wait)) {
    const absl::StatusOr<Pass> pass = RunOnce();
    if (!pass.ok()) {
      Log(LogLevel::kWarn, "sweep failed", {{"error", pass.status().message()}});
    } else if (pass->removed > 0 || pass->marked_unknown > 0) {
      Log(LogLevel::kInfo, "swept",
          {{"removed", pass->removed}, {"marked_unknown", pass->marked_unknown}});
    }
    wait = Jittered(0.5, 1.5);
  }
}

absl::StatusOr<Sweeper::Pass> Sweeper::RunOnce() {
  Pass pass;
  SweepOp op;
  op.limit = options_.batch;
  while (true) {
    const auto began = std::chrono::steady_clock::now();
    const absl::StatusOr<SweepProgress> progress = store_.Sweep(op);
    observer_.SweepStepDone(progress, absl::FromChrono(std::chrono::steady_clock::now() - began));
    if (!progress.ok()) return progress.status();
    pass.removed += progress->removed;
    pass.marked_unknown += progress->marked_unknown;
    pass.cut_short = progress->elsewhere;
    if (progress->elsewhere || !progress->next.has_value()) return pass;
    op.after = progress->next;
    if (!stop_.WaitFor(options_.pause)) {
      pass.cut_short = true;
      return pass;
    }
  }
}

absl::Duration Sweeper::Jittered(double low, double high) {
  return options_.interval * std::uniform_real_distribution<double>(low, high)(random_);
}

}  // namespace idempotency

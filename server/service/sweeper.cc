#include "server/service/sweeper.h"

#include <algorithm>
#include <iterator>

#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

// 50 million records at 500 a stretch, in about 10 MB.
constexpr std::size_t kMaxStretches = 100'000;

bool Changed(const Sweeper::Pass& pass) {
  return pass.removed + pass.marked_unknown + pass.entombed + pass.replies_dropped +
             pass.unknown_ended >
         0;
}

void LogPass(const absl::StatusOr<Sweeper::Pass>& pass) {
  if (!pass.ok()) {
    Log(LogLevel::kWarn, "sweep failed", {{"error", pass.status().message()}});
  } else if (Changed(*pass)) {
    Log(LogLevel::kInfo, "swept",
        {{"removed", pass->removed},
         {"marked_unknown", pass->marked_unknown},
         {"entombed", pass->entombed},
         {"replies_dropped", pass->replies_dropped},
         {"unknown_ended", pass->unknown_ended},
         {"visited", pass->visited}});
  }
}

}  // namespace

Sweeper::Sweeper(MaintenanceStore& store, Observer& observer, const Options& options)
    : store_(store), observer_(observer), options_(options), random_(std::random_device()()) {}

Sweeper::~Sweeper() { Stop(); }

void Sweeper::Start() {
  observer_.SweeperStarted(options_.interval);
  thread_.emplace("sweeper", Jittered(0, 1), [this] {
    LogPass(RunOnce());
    return Jittered(0.5, 1.5);
  });
}

void Sweeper::Stop() {
  stop_.Stop();
  thread_.reset();
}

absl::Status Sweeper::EndUnknown(Pass& pass) {
  absl::Status first;
  if (options_.unknown_lives == nullptr) return first;
  for (const auto& [name_space, life] : options_.unknown_lives()) {
    EndUnknownOp op;
    op.name_space = name_space;
    op.life = life;
    op.limit = options_.batch;
    do {
      const TimePoint began = std::chrono::steady_clock::now();
      const absl::StatusOr<EndUnknownStep> step = store_.EndUnknown(op);
      observer_.UnknownEnded(step);
      if (step.ok()) {
        pass.unknown_ended += step->ended;
        op.after = step->next;
      } else {
        first.Update(step.status());
        op.after.reset();
      }
      const auto took = std::chrono::steady_clock::now() - began;
      if (!stop_.WaitFor(options_.min_rest * absl::FromChrono(took))) {
        pass.cut_short = true;
        return first;
      }
    } while (op.after);
  }
  return first;
}

absl::StatusOr<Sweeper::Pass> Sweeper::RunOnce() {
  Pass pass;
  absl::Status first = EndUnknown(pass);
  if (!pass.cut_short) first.Update(SweepAll(pass));
  if (!first.ok()) return first;
  return pass;
}

absl::Status Sweeper::SweepAll(Pass& pass) {
  std::optional<TimePoint> backlog_since;
  SweepOp op;
  op.limit = options_.batch;
  while (true) {
    const TimePoint began = std::chrono::steady_clock::now();
    op.after = SkipQuiet(op.after, began);
    op.until = NextKnown(op.after);
    const absl::StatusOr<SweepProgress> progress = store_.Sweep(op);
    const TimePoint ended = std::chrono::steady_clock::now();
    const absl::Duration took = absl::FromChrono(ended - began);
    observer_.SweepStepDone(progress, took);
    if (!progress.ok()) return progress.status();
    pass.removed += progress->removed;
    pass.marked_unknown += progress->marked_unknown;
    pass.entombed += progress->entombed;
    pass.replies_dropped += progress->replies_dropped;
    pass.visited += progress->visited;
    pass.cut_short = progress->elsewhere;
    if (progress->elsewhere) {
      // The other replica's changes are not known here.
      stretches_.clear();
      return absl::OkStatus();
    }
    Remember(op, *progress, ended);
    if (!progress->next.has_value()) return absl::OkStatus();
    op.after = progress->next;
    if (progress->removed == 0) backlog_since.reset();
    if (!backlog_since) backlog_since = began;
    if (!stop_.WaitFor(
            PauseAfter(*progress, took, absl::FromChrono(ended - *backlog_since), options_))) {
      pass.cut_short = true;
      return absl::OkStatus();
    }
  }
}

absl::Duration Sweeper::PauseAfter(const SweepProgress& step, absl::Duration took,
                                   absl::Duration backlog, const Options& options) {
  const std::int64_t changed =
      step.removed + step.entombed + step.replies_dropped + step.marked_unknown;
  const absl::Duration least = options.min_rest * took;
  const absl::Duration looked_at =
      absl::Seconds(static_cast<double>(step.visited) / options.visits_per_second);
  if (changed == 0) return std::max(looked_at - took, least);
  const double rate =
      options.removals_per_second * (1 + absl::FDivDuration(backlog, options.growth));
  const absl::Duration removed = absl::Seconds(static_cast<double>(changed) / rate);
  return std::clamp(removed - took, least, std::max(least, options.max_rest * took));
}

std::optional<RecordId> Sweeper::SkipQuiet(std::optional<RecordId> place, TimePoint now) const {
  for (auto it = stretches_.find(place.value_or(RecordId()));
       it != stretches_.end() && now < it->second.quiet_until;
       it = stretches_.find(it->second.end)) {
    place = it->second.end;
  }
  return place;
}

std::optional<RecordId> Sweeper::NextKnown(const std::optional<RecordId>& place) const {
  const RecordId after = place.value_or(RecordId());
  if (const auto same = stretches_.find(after); same != stretches_.end()) return same->second.end;
  const auto next = stretches_.upper_bound(after);
  return next == stretches_.end() ? std::nullopt : std::optional<RecordId>(next->first);
}

void Sweeper::Remember(const SweepOp& op, const SweepProgress& step, TimePoint now) {
  const RecordId begin = op.after.value_or(RecordId());
  stretches_.erase(begin);
  // The range where new records are added is examined each time.
  if (!step.next || step.quiet <= absl::ZeroDuration()) return;
  Stretch stretch{*step.next, now + absl::ToChronoNanoseconds(std::min(step.quiet, options_.trust)),
                  step.visited - step.removed};
  // The rest of a range joins the one before.
  const auto behind = stretches_.lower_bound(begin);
  if (behind != stretches_.begin()) {
    Stretch& before = std::prev(behind)->second;
    if (before.end == begin && before.records + stretch.records <= options_.batch / 2) {
      before.end = stretch.end;
      before.quiet_until = std::min(before.quiet_until, stretch.quiet_until);
      before.records += stretch.records;
      return;
    }
  }
  if (stretches_.size() < kMaxStretches) stretches_.emplace(begin, stretch);
}

absl::Duration Sweeper::Jittered(double low, double high) {
  return options_.interval * std::uniform_real_distribution<double>(low, high)(random_);
}

}  // namespace idempotency::internal

#include "server/service/sweeper.h"

#include <algorithm>

#include "server/observability/log.h"

namespace idempotency::internal {
namespace {

// After a step that was too slow: a sixteenth of its range.
constexpr int kNarrowBy = 4;
// A pass waits for its turn for about 13 seconds, which is more than a step may take.
constexpr int kMaxRefused = 8;

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
    : store_(store),
      observer_(observer),
      options_(options),
      random_(std::random_device()()),
      quiet_(options.max_quiet_ranges, options.batch / 2),
      lanes_(1) {}

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
      const TimePoint began = options_.clock->Monotonic();
      const absl::StatusOr<EndUnknownStep> step = store_.EndUnknown(op);
      observer_.UnknownEnded(step);
      if (step.ok()) {
        pass.unknown_ended += step->ended;
        op.after = step->next;
      } else {
        first.Update(step.status());
        op.after.reset();
      }
      const auto took = options_.clock->Monotonic() - began;
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
  // Not at the end, which may be hours later.
  const bool is_counted = !first.ok();
  if (is_counted) observer_.SweepFailed();
  if (!pass.cut_short) {
    first.Update(SweepAll(pass));
    walked_ += absl::FromChrono(options_.clock->Monotonic() - pass_began_);
  }
  if (!first.ok()) {
    if (!is_counted) observer_.SweepFailed();
    return first;
  }
  if (!pass.cut_short) observer_.SweepCompleted();
  return pass;
}

absl::Status Sweeper::SweepAll(Pass& pass) {
  known_records_ = quiet_.records();
  refused_ = 0;
  pass_began_ = options_.clock->Monotonic();
  Begin(lanes_.front());
  while (true) {
    const auto pause = StepOf(NextLane(options_.clock->Monotonic()), pass);
    if (!pause.ok()) return pause.status();
    if (!*pause) return absl::OkStatus();
    if (!stop_.WaitFor(**pause)) {
      pass.cut_short = true;
      return absl::OkStatus();
    }
  }
}

absl::StatusOr<std::optional<absl::Duration>> Sweeper::StepOf(Lane& lane, Pass& pass) {
  const bool is_whole = &lane == &lanes_.front();
  const TimePoint began = options_.clock->Monotonic();
  SweepOp& op = lane.op;
  op.after = quiet_.Skip(op.after, began);
  op.until = quiet_.NextPlace(op.after);
  if (lane.range.until) {
    op.until = std::min(op.until.value_or(*lane.range.until), *lane.range.until);
  }
  if (IsAtEnd(lane)) {
    End(lane, began);
    return absl::ZeroDuration();
  }
  const absl::StatusOr<SweepProgress> progress = store_.Sweep(op);
  const TimePoint ended = options_.clock->Monotonic();
  const absl::Duration took = absl::FromChrono(ended - began);
  observer_.SweepStepDone(progress, took);
  if (!progress.ok()) {
    End(lane, ended);
    return progress.status();
  }
  if (progress->elsewhere) return AwaitTurn(pass);
  refused_ = 0;
  if (progress->too_slow) {
    op.narrow = std::min(op.narrow + kNarrowBy, SweepOp::kNarrowest);
    Log(LogLevel::kWarn, "a step of the sweep took too long; it is repeated on a smaller range",
        {{"halvings", op.narrow}});
    return PauseAfter(*progress, took, absl::ZeroDuration(), options_);
  }
  op.narrow = std::max(op.narrow - 1, 0);
  pass.removed += progress->removed;
  pass.marked_unknown += progress->marked_unknown;
  pass.entombed += progress->entombed;
  pass.replies_dropped += progress->replies_dropped;
  pass.visited += progress->visited;
  known_records_ = std::max(known_records_, pass.visited);
  Remember(op, *progress, ended);
  if (progress->removed == 0) lane.backlog_since.reset();
  if (!lane.backlog_since) lane.backlog_since = began;
  const absl::Duration pause =
      PauseAfter(*progress, took, absl::FromChrono(ended - *lane.backlog_since), options_);
  op.after = progress->next;
  const bool is_done = !op.after || IsAtEnd(lane);
  if (is_done) End(lane, ended);
  NoteTurns(progress->turns, ended);
  if (is_done && is_whole) {
    // It has walked their ranges too.
    for (Lane& side : lanes_) side.due = ended + absl::ToChronoNanoseconds(2 * options_.interval);
    walked_ = absl::ZeroDuration();
    pass_began_ = ended;
    return std::nullopt;
  }
  return pause;
}

std::optional<absl::Duration> Sweeper::AwaitTurn(Pass& pass) {
  if (pass.visited == 0 || refused_ == kMaxRefused) {
    pass.cut_short = true;
    return std::nullopt;
  }
  const double jitter = std::uniform_real_distribution<double>(0.5, 1.5)(random_);
  return jitter * (1 << refused_++) * options_.turn_pause;
}

Sweeper::Lane& Sweeper::NextLane(TimePoint now) {
  while (true) {
    last_lane_ = (last_lane_ + 1) % lanes_.size();
    Lane& lane = lanes_[last_lane_];
    if (!lane.under_way && lane.due <= now) Begin(lane);
    if (lane.under_way) return lane;
  }
}

void Sweeper::Begin(Lane& lane) {
  lane.under_way = true;
  lane.backlog_since.reset();
  lane.op = SweepOp();
  lane.op.limit = options_.batch;
  if (lane.range.after != RecordId()) lane.op.after = quiet_.BeginOf(lane.range.after);
}

void Sweeper::End(Lane& lane, TimePoint now) {
  lane.under_way = false;
  lane.due = now + absl::ToChronoNanoseconds(options_.interval);
}

bool Sweeper::IsAtEnd(const Lane& lane) {
  return lane.op.after && lane.range.until && !(*lane.op.after < *lane.range.until);
}

void Sweeper::NoteTurns(const std::vector<SweepRange>& turns, TimePoint now) {
  Lane side;
  side.due = now + absl::ToChronoNanoseconds(2 * options_.interval);
  lanes_.resize(turns.size() + 1, side);
  last_lane_ %= lanes_.size();
  for (std::size_t i = 0; i < turns.size(); ++i) lanes_[i + 1].range = turns[i];
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

void Sweeper::Remember(const SweepOp& op, const SweepProgress& step, TimePoint now) {
  const RecordId begin = op.after.value_or(RecordId());
  quiet_.Forget(begin);
  // The range where new records are added is examined each time.
  if (!step.next || step.quiet <= absl::ZeroDuration()) return;
  quiet_.Add(begin, {*step.next, now + absl::ToChronoNanoseconds(std::min(step.quiet, Trust(now))),
                     step.visited - step.removed});
}

absl::Duration Sweeper::Trust(TimePoint now) const {
  const absl::Duration whole =
      absl::Seconds(static_cast<double>(known_records_) / options_.visits_per_second);
  const absl::Duration walked = walked_ + absl::FromChrono(now - pass_began_);
  return std::max(options_.trust, 2 * std::max(whole, walked));
}

absl::Duration Sweeper::Jittered(double low, double high) {
  return options_.interval * std::uniform_real_distribution<double>(low, high)(random_);
}

}  // namespace idempotency::internal

#include "tests/simulation/simulation.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/server/policy/unknown_outcome.h"

namespace idempotency::internal::simulation {
namespace {

// Ten times the steps of the busiest runs.
constexpr std::uint64_t kMaxEvents = 2'000'000;
constexpr std::size_t kMaxKeys = 24;
// The time in which every key has to settle when the faults are over, in addition to its lease and
// the pause after its last failure.
constexpr Nanos kToSettle = 10 * kSecond;
constexpr Nanos kLongestPause = 60 * kSecond;
static_assert(kLongestReleasePause == absl::Seconds(60));
constexpr Nanos kCallerTimeLimit = 6 * kSecond;

std::int64_t DrawDrift(Random& random) { return random.Between(-200, 200); }
Nanos DrawWallError(Random& random) { return random.Between(-30, 30) * kSecond; }

}  // namespace

Simulation::Simulation(Scheduler& scheduler, Journal& journal)
    : scheduler_(scheduler),
      journal_(journal),
      random_(scheduler.random()),
      plan_(Plan::Draw(random_)),
      store_clock_(scheduler, DrawDrift(random_)),
      // Where records are forgotten its clock steps forward only, and the sweep has to reach them
      // within a run.
      memory_(store_clock_, /*clock_step_margin=*/absl::ZeroDuration()),
      checker_(journal, plan_.window()),
      store_(memory_, store_clock_, checker_, journal),
      network_(scheduler, plan_, journal),
      application_{scheduler, plan_, journal, checker_,
                   std::make_shared<Ledger>(scheduler, plan_, journal)} {}

void Simulation::Run(int steps) {
  for (std::size_t place = 0; place < daemons_.size(); ++place) StartDaemon(place);
  for (std::size_t place = 0; place < apps_.size(); ++place) StartApp(place);
  scheduler_.At(0, nullptr, [this, steps] { Direct(steps); });
  if (!scheduler_.Run([this] { return done_; }, kMaxEvents)) {
    journal_.Broken(scheduler_.events() >= kMaxEvents ? "the run does not come to rest"
                                                      : "nothing is left that could happen");
  }
}

void Simulation::Direct(int steps) {
  for (int step = 0; step < steps; ++step) {
    Nanos pause = random_.Between(0, 150) * kMillisecond;
    if (random_.Chance(0.03)) pause = random_.Between(0, plan_.lease * 2);
    scheduler_.Sleep(pause);
    Step();
  }
  EndFaults();
  SettleAll();
}

void Simulation::Step() {
  // In any run: without relaxed reservations there is nothing to lose.
  if (store_.CrashWouldLose() && random_.Chance(0.3)) CrashStore();
  const std::uint64_t drawn = random_.Below(100);
  if (drawn < 70) return BeginCall();
  if (drawn < 75) return KillApp(random_.Below(apps_.size()), random_.Chance(0.3));
  if (drawn < 80) return KillDaemon(random_.Below(daemons_.size()), random_.Chance(0.3));
  if (drawn < 86) return PauseOneProcess();
  if (drawn < 90) return JumpClock();
  if (drawn < 94) return CutSomething();
  if (drawn < 97) return TakeStoreAway();
  TakeLedgerAway();
}

// Callers.

Simulation::Key& Simulation::NewKey() {
  auto key = std::make_unique<Key>();
  const std::size_t number = keys_.size();
  key->call.policy = static_cast<Call::Policy>(random_.Below(4));
  key->call.key = random_.Chance(0.5) ? Uuid::TimeOrdered(store_clock_.Now()).ToString()
                                      : absl::StrCat("key-", number);
  key->call.request = absl::StrCat("<request ", number, ">");
  // A recovery by the record's id alone cannot distinguish two lives of it.
  const bool one_request = plan_.forgetful && key->call.policy == Call::Policy::kRecover;
  key->other_request = one_request ? key->call.request : absl::StrCat("<other ", number, ">");
  keys_.push_back(std::move(key));
  return *keys_.back();
}

void Simulation::BeginCall() {
  const bool is_new = keys_.empty() || (keys_.size() < kMaxKeys && random_.Chance(0.35));
  const Key& key = is_new ? NewKey() : *keys_[random_.Below(keys_.size())];
  Call call = key.call;
  if (random_.Chance(0.07)) call.request = key.other_request;
  const int tries = static_cast<int>(random_.Between(1, 4));
  scheduler_.After(0, nullptr, [this, call, tries] { Try(call, tries); });
}

bool Simulation::Try(const Call& call, int tries) {
  for (int tried = 0; tried < tries; ++tried) {
    const Answer answer = SendOnce(call);
    if (IsFinal(call, answer)) return true;
    scheduler_.Sleep(random_.Between(10, 400) * kMillisecond);
  }
  return false;
}

Answer Simulation::SendOnce(const Call& call) {
  App* const app = apps_[random_.Below(apps_.size())];
  if (app == nullptr || !app->process().alive() || !app->serving()) {
    scheduler_.Sleep(network_.Latency());
    return {std::nullopt, false, absl::UnavailableError("connection refused")};
  }
  // The caller may have ended before the answer, and an answer may arrive twice.
  struct SentCall {
    std::optional<Answer> answer;
    Fiber* caller;
    std::uint64_t wait;
  };
  const auto sent = std::make_shared<SentCall>();
  sent->caller = scheduler_.fiber();
  sent->wait = scheduler_.PrepareWait();
  network_.Send("caller", &app->process(), app->name(), [this, app, call, sent] {
    app->Serve(call, [this, app, sent](const Answer& answer) {
      network_.Send(app->name(), nullptr, "caller", [this, sent, answer] {
        if (sent->answer) return;
        sent->answer = answer;
        scheduler_.Wake(sent->caller, sent->wait);
      });
    });
  });
  const Nanos time_limit = faults_over_ ? kCallerTimeLimit : random_.Between(1, kCallerTimeLimit);
  scheduler_.Wait(scheduler_.now() + time_limit);
  if (sent->answer) return *sent->answer;
  sent->answer.emplace();
  journal_.Counted(Count::kCallerLeft);
  return {std::nullopt, false, absl::DeadlineExceededError("no answer")};
}

bool Simulation::IsFinal(const Call& call, const Answer& answer) {
  const RecordId id = RecordIdFor(call.record_key());
  if (answer.reply) {
    journal_.Counted(answer.reply->code() != 0 ? Count::kFailureGiven
                     : answer.replayed         ? Count::kReplayGiven
                                               : Count::kReplyGiven);
    journal_.Write("caller of %s %s has its %s, code %d", call.operation().c_str(),
                   call.key.c_str(), answer.replayed ? "replay" : "reply", answer.reply->code());
    checker_.OnReply(id, call.request, *answer.reply);
    if (plan_.ledger && call.policy != Call::Policy::kRecover && answer.reply->code() == 0) {
      checker_.OnDoneWithLedger(id);
    }
    return true;
  }
  journal_.Write("caller of %s %s: %s", call.operation().c_str(), call.key.c_str(),
                 std::string(answer.error.message()).c_str());
  switch (ReasonOf(answer.error).value_or(Reason::kQuotaExceeded)) {
    case Reason::kKeyReused:
      journal_.Counted(Count::kKeyReusedGiven);
      return true;
    case Reason::kKeyExpired:
      journal_.Counted(Count::kKeyExpiredGiven);
      return true;
    case Reason::kOutcomeUnknown:
      journal_.Counted(Count::kOutcomeUnknownGiven);
      // If recovery can settle it, the caller tries again.
      return call.policy == Call::Policy::kUnknown;
    case Reason::kInFlight:
      journal_.Counted(Count::kInFlightGiven);
      return false;
    case Reason::kStoreUnavailable:
      journal_.Counted(Count::kUnavailableGiven);
      return false;
    case Reason::kReservationLost:
      journal_.Counted(Count::kReservationLostGiven);
      return false;
    case Reason::kOutcomeNotRecorded:
      journal_.Counted(Count::kNotRecordedGiven);
      return false;
    default:
      return false;
  }
}

// Faults.

void Simulation::StartApp(std::size_t place) {
  // Kept until the program ends, like all remains of a killed process.
  App* const app = std::make_unique<App>(absl::StrCat("app-", place), DrawDrift(random_),
                                         DrawWallError(random_), application_, network_, daemons_)
                       .release();
  apps_[place] = app;
  scheduler_.After(0, &app->process(), [app] { app->Start(); });
}

void Simulation::StartDaemon(std::size_t place) {
  Daemon* const daemon = std::make_unique<Daemon>(absl::StrCat("daemon-", place),
                                                  DrawDrift(random_), DrawWallError(random_),
                                                  store_, scheduler_, plan_, store_away_, journal_)
                             .release();
  daemons_[place] = daemon;
  scheduler_.After(0, &daemon->process(), [daemon] { daemon->Start(); });
}

void Simulation::KillApp(std::size_t place, bool in_order) {
  App* const app = apps_[place];
  if (!app->process().alive() || !app->serving()) return;
  journal_.Write("%s is %s", app->name().c_str(), in_order ? "stopped" : "killed");
  journal_.Counted(in_order ? Count::kAppStopped : Count::kAppKilled);
  const Nanos down = random_.Between(0, 3) * kSecond;
  if (in_order) {
    stopping_.push_back(&app->process());
    scheduler_.After(0, &app->process(), [app] { app->Stop(); });
    scheduler_.After(random_.Between(0, 15) * kSecond, nullptr, [app] { app->process().Kill(); });
  } else {
    app->process().Kill();
  }
  scheduler_.After(down, nullptr, [this, place] { StartApp(place); });
}

void Simulation::KillDaemon(std::size_t place, bool in_order) {
  Daemon* const daemon = daemons_[place];
  if (!daemon->process().alive() || !daemon->serving()) return;
  journal_.Write("%s is %s", daemon->name().c_str(), in_order ? "stopped" : "killed");
  journal_.Counted(in_order ? Count::kDaemonStopped : Count::kDaemonKilled);
  const Nanos down = random_.Between(0, 3) * kSecond;
  if (in_order) {
    stopping_.push_back(&daemon->process());
    scheduler_.After(0, &daemon->process(), [daemon] { daemon->Stop(); });
    scheduler_.After(random_.Between(0, 5) * kSecond, nullptr,
                     [daemon] { daemon->process().Kill(); });
  } else {
    daemon->process().Kill();
  }
  scheduler_.After(down, nullptr, [this, place] { StartDaemon(place); });
}

Process* Simulation::SomeProcess() {
  return random_.Chance(0.5) ? &apps_[random_.Below(apps_.size())]->process()
                             : &daemons_[random_.Below(daemons_.size())]->process();
}

void Simulation::PauseOneProcess() {
  Process* const process = SomeProcess();
  const Nanos pause = random_.Between(0, plan_.lease * 3 / 2);
  process->PauseUntil(scheduler_.now() + pause);
  journal_.Write("%s pauses for %.3f s", process->name().c_str(),
                 static_cast<double>(pause) / kSecond);
  journal_.Counted(Count::kProcessPaused);
}

void Simulation::JumpClock() {
  Nanos by = random_.Between(-2 * plan_.lease, 2 * plan_.lease);
  if (random_.Chance(0.3)) {
    // If the clock steps back beyond the end of a record that was removed, no part has it any more.
    if (plan_.forgetful) by = std::abs(by);
    store_clock_.Jump(by);
    journal_.Write("the store's clock jumps by %.3f s", static_cast<double>(by) / kSecond);
    journal_.Counted(Count::kStoreClockJumped);
  } else {
    SomeProcess()->JumpWall(by);
    journal_.Counted(Count::kWallClockJumped);
  }
}

void Simulation::CutSomething() {
  const std::string& app = apps_[random_.Below(apps_.size())]->name();
  const bool from_callers = random_.Chance(0.2);
  const std::string other =
      from_callers ? "caller" : daemons_[random_.Below(daemons_.size())]->name();
  network_.Cut(app, other);
  journal_.Write("partition between %s and %s", app.c_str(), other.c_str());
  journal_.Counted(Count::kPartition);
  scheduler_.After(random_.Between(0, plan_.lease * 2), nullptr, [this] { network_.HealAll(); });
}

void Simulation::TakeStoreAway() {
  store_away_ = true;
  journal_.Write("the store is away");
  journal_.Counted(Count::kStoreOutage);
  scheduler_.After(random_.Between(0, plan_.lease * 2), nullptr, [this] { store_away_ = false; });
}

void Simulation::CrashStore() {
  journal_.Write("the store crashes");
  store_.Crash(random_);
  store_away_ = true;
  scheduler_.After(random_.Between(1, 1000) * kMillisecond, nullptr,
                   [this] { store_away_ = false; });
}

void Simulation::TakeLedgerAway() {
  if (!plan_.ledger) return;
  application_.ledger->SetAway(true);
  scheduler_.After(random_.Between(0, plan_.lease), nullptr,
                   [this] { application_.ledger->SetAway(false); });
}

// The end.

void Simulation::EndFaults() {
  Nanos pauses_end = 0;
  for (std::size_t place = 0; place < apps_.size(); ++place) {
    pauses_end = std::max(pauses_end, apps_[place]->process().paused_until());
  }
  for (std::size_t place = 0; place < daemons_.size(); ++place) {
    pauses_end = std::max(pauses_end, daemons_[place]->process().paused_until());
  }
  if (pauses_end > scheduler_.now()) scheduler_.Sleep(pauses_end - scheduler_.now());
  // They would be killed later, and their running work takes another lease.
  for (Process* const process : stopping_) process->Kill();
  journal_.Write("the faults are over");
  faults_over_ = true;
  plan_.EndFaults();
  network_.HealAll();
  store_away_ = false;
  store_clock_.CatchUp();
  application_.ledger->SetAway(false);
  application_.well_behaved = true;
}

void Simulation::SettleAll() {
  unsettled_ = static_cast<int>(keys_.size());
  if (unsettled_ == 0) done_ = true;
  for (const auto& key : keys_) {
    scheduler_.After(0, nullptr, [this, key = key.get()] { Settle(*key); });
  }
  scheduler_.After(plan_.lease + kLongestPause + kToSettle, nullptr, [this] {
    for (const auto& key : keys_) {
      if (key->settled) continue;
      journal_.Broken(absl::StrCat("a key does not settle after the faults (",
                                   key->call.operation(), " ", key->call.key, ")"));
    }
  });
}

void Simulation::Settle(Key& key) {
  while (!Try(key.call, 1)) {
  }
  key.settled = true;
  journal_.Counted(Count::kSettledAtTheEnd);
  if (--unsettled_ == 0) done_ = true;
}

}  // namespace idempotency::internal::simulation

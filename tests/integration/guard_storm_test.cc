// Thousands of calls under every event that can happen to a call at once: cancellations, deadlines,
// handlers that fail and throw, a shutdown midway.
#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "interceptors/server/call/guarded_call_table.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"

namespace idempotency::internal::testing {
namespace {

using std::chrono::milliseconds;

constexpr int kCallers = 24;
// Before the shutdown, and again after it.
constexpr int kCalls = 1500;
constexpr std::chrono::seconds kLongestPhase{6};

// The action of a handler, drawn again for each run. Thread-safe.
class Fate {
 public:
  struct Deed {
    bool throws = false;
    grpc::Status status;
    milliseconds time{0};
    int run = 0;
  };

  explicit Fate(std::uint32_t seed) : random_(seed) {}

  // Counts a run for `account` and returns its action.
  Deed Draw(const std::string& account) {
    MutexLock lock(mutex_);
    ++runs_of_[account];
    Deed deed;
    deed.run = ++runs_;
    if (calm_) return deed;
    if (Below(100) < 40) deed.time = milliseconds(Below(25));
    const int lot = Below(100);
    if (lot < 15) {
      deed.throws = true;
    } else if (lot < 60) {
      static constexpr std::array kIndefinite = {
          grpc::StatusCode::CANCELLED,   grpc::StatusCode::DEADLINE_EXCEEDED,
          grpc::StatusCode::UNAVAILABLE, grpc::StatusCode::UNKNOWN,
          grpc::StatusCode::INTERNAL,    grpc::StatusCode::ABORTED};
      deed.status = grpc::Status(kIndefinite.at(Below(kIndefinite.size())), "not this time");
    } else if (lot < 70) {
      deed.status = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, absl::StrCat(deed.run));
    }
    return deed;
  }

  // Later runs all succeed at once.
  void Calm() {
    MutexLock lock(mutex_);
    calm_ = true;
  }
  int RunsOf(const std::string& account) {
    MutexLock lock(mutex_);
    return runs_of_[account];
  }
  int runs() {
    MutexLock lock(mutex_);
    return runs_;
  }

 private:
  int Below(std::size_t end) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return static_cast<int>(random_() % end);
  }

  Mutex mutex_;
  std::mt19937 random_ ABSL_GUARDED_BY(mutex_);
  bool calm_ ABSL_GUARDED_BY(mutex_) = false;
  int runs_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, int> runs_of_ ABSL_GUARDED_BY(mutex_);
};

// A storm does not wait for the pauses after failures. Executions that may still run are left to
// their leases.
void ComeBackAtOnce(grpc::ServerContextBase& context, const Fate::Deed& deed) {
  const grpc::StatusCode code = deed.status.error_code();
  if (code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::DEADLINE_EXCEEDED) return;
  if (Execution* execution = Execution::FromContext(&context); execution != nullptr) {
    execution->MarkNoEffect();
  }
}

void Fill(const ActRequest& request, int run, ActReply& reply) {
  reply.set_effect(request.account());
  reply.set_total(run);
  for (int i = 0; i < 8; ++i) (*reply.mutable_notes())[absl::StrCat(i)] = "note";
}

class SyncStormProbe final : public Probe::Service {
 public:
  explicit SyncStormProbe(Fate& fate) : fate_(fate) {}
  grpc::Status Act(grpc::ServerContext* context, const ActRequest* request,
                   ActReply* reply) override {
    const Fate::Deed deed = fate_.Draw(request->account());
    ComeBackAtOnce(*context, deed);
    std::this_thread::sleep_for(deed.time);  // work
    if (deed.throws) throw std::runtime_error("as drawn");
    Fill(*request, deed.run, *reply);
    return deed.status;
  }

 private:
  Fate& fate_;
};

// Finishes from another thread, when its time has come.
class TimedReactor final : public grpc::ServerUnaryReactor {
 public:
  TimedReactor(grpc::Status status, milliseconds time) : status_(std::move(status)) {
    alarm_.Set(std::chrono::system_clock::now() + time, [this](bool /*ok*/) { Finish(status_); });
  }
  void OnDone() override { const std::unique_ptr<TimedReactor> self(this); }

 private:
  const grpc::Status status_;
  grpc::Alarm alarm_;
};

class CallbackStormProbe final : public Probe::CallbackService {
 public:
  explicit CallbackStormProbe(Fate& fate) : fate_(fate) {}
  grpc::ServerUnaryReactor* Act(grpc::CallbackServerContext* context, const ActRequest* request,
                                ActReply* reply) override {
    const Fate::Deed deed = fate_.Draw(request->account());
    ComeBackAtOnce(*context, deed);
    if (deed.throws) throw std::runtime_error("as drawn");
    Fill(*request, deed.run, *reply);
    if (deed.time > milliseconds(0)) {
      return std::make_unique<TimedReactor>(deed.status, deed.time).release();
    }
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(deed.status);
    return reactor;
  }

 private:
  Fate& fate_;
};

// The outcomes of a key that a caller may accept.
using Settled = std::tuple<int, std::string, std::string>;

Settled SettledBy(const Outcome& outcome) {
  return {outcome.status.error_code(), outcome.status.error_message(), outcome.body};
}

bool IsSettled(const Outcome& outcome) {
  return outcome.status.ok() ||
         (outcome.status.error_code() == grpc::StatusCode::FAILED_PRECONDITION &&
          !outcome.reason().has_value());
}

Call CallOf(const std::string& key) {
  Call call;
  call.account = key;
  call.keys = {key};
  return call;
}

// The callers of one phase, and a thread that cancels some of their calls.
// Thread-safe.
class Callers {
 public:
  Callers(const ProbeClient& client, int first_call, std::uint32_t seed)
      : client_(client), first_call_(first_call), calls_(kCallers) {
    for (int i = 0; i < kCallers; ++i) {
      threads_.emplace_back([this, i, seed] { Keep(i, seed + static_cast<std::uint32_t>(i)); });
    }
    threads_.emplace_back([this, seed] { Cancel(seed); });
  }
  ~Callers() { Stop(); }

  // Until kCalls are done or kLongestPhase is over. A few more are begun afterwards, for a server
  // that is about to stop.
  void Await() {
    const auto deadline = std::chrono::steady_clock::now() + kLongestPhase;
    MutexLock lock(mutex_);
    while (done_ < kCalls && changed_.WaitUntil(lock, deadline)) {
    }
    last_ = started_ + 4 * kCallers;
  }
  // Waits for the calls that are under way.
  void Stop() {
    {
      MutexLock lock(mutex_);
      last_ = 0;
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  // By key, every settled outcome that a caller received.
  std::map<std::string, std::set<Settled>> settled() {
    MutexLock lock(mutex_);
    return settled_;
  }
  int done() {
    MutexLock lock(mutex_);
    return done_;
  }

 private:
  void Keep(int caller, std::uint32_t seed) {
    pthread_setname_np(pthread_self(), "storm-caller");
    std::mt19937 random(seed);
    while (true) {
      Call call;
      {
        MutexLock lock(mutex_);
        if (started_ >= last_) return;
        // A window of keys that moves: some are new, some settled.
        const int key = (first_call_ + started_++) / 16 + static_cast<int>(random() % 8);
        call = CallOf(absl::StrCat("storm-", key));
        settled_[call.account];
        if (random() % 4 == 0) call.timeout = milliseconds(1 + random() % 60);
        calls_[static_cast<std::size_t>(caller)] = call.context;
      }
      const Outcome outcome = client_.Send(call);
      MutexLock lock(mutex_);
      calls_[static_cast<std::size_t>(caller)] = nullptr;
      if (IsSettled(outcome)) settled_[call.account].insert(SettledBy(outcome));
      if (++done_ == kCalls) changed_.NotifyAll();
    }
  }

  void Cancel(std::uint32_t seed) {
    pthread_setname_np(pthread_self(), "storm-cancel");
    std::mt19937 random(seed);
    MutexLock lock(mutex_);
    while (last_ > 0) {
      changed_.WaitUntil(lock, std::chrono::steady_clock::now() + milliseconds(8));
      const std::shared_ptr<grpc::ClientContext> call = calls_[random() % calls_.size()];
      if (call != nullptr) call->TryCancel();
    }
  }

  const ProbeClient& client_;
  const int first_call_;
  Mutex mutex_;
  CondVar changed_;
  // How many calls may be begun.
  int last_ ABSL_GUARDED_BY(mutex_) = std::numeric_limits<int>::max();
  int started_ ABSL_GUARDED_BY(mutex_) = 0;
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
  // The wait of each caller.
  std::vector<std::shared_ptr<grpc::ClientContext>> calls_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::set<Settled>> settled_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

class GuardStorm : public GuardFixture {
 protected:
  GuardStorm() {
    if (GetParam() == Api::kSync) {
      service_ = std::make_unique<SyncStormProbe>(fate_);
    } else {
      service_ = std::make_unique<CallbackStormProbe>(fate_);
    }
  }
  ~GuardStorm() override { server_.reset(); }

  ProbeServer& ServeStorm() {
    return Serve(nullptr, [this](ProbeServer::Options& options) {
      MethodPolicy& policy =
          options.guard.methods["/idempotency.testing.Probe/Act"].MutableReplacementPolicy();
      policy.lease = absl::Seconds(1);
      policy.in_flight = MethodPolicy::InFlight::kWait;
      policy.max_wait = absl::Milliseconds(50);
      options.protect = [this](ServerGuard& guard, grpc::ServerBuilder& builder) {
        return guard.Protect<Probe>(builder, service_.get());
      };
    });
  }

  // Merges the outcomes that the callers of a phase received.
  void Collect(Callers& callers) {
    for (auto& [key, settled] : callers.settled()) all_settled_[key].merge(settled);
    calls_ += callers.done();
  }

  // Calls until the key is settled, and compares with the earlier outcome.
  void ExpectOneOutcome(const ProbeClient& client, const std::string& key,
                        const std::set<Settled>& settled) {
    const Outcome last = client.SendUntilSettled(CallOf(key), std::chrono::seconds(20));
    ASSERT_TRUE(IsSettled(last)) << last.status.error_code() << " " << last.status.error_message();
    for (const Settled& earlier : settled) EXPECT_EQ(earlier, SettledBy(last));
    EXPECT_EQ(SettledBy(client.Send(CallOf(key))), SettledBy(last));
    const v1::Record record = Get(last.Trailer("idempotency-record"));
    EXPECT_EQ(record.state(), v1::RECORD_STATE_COMPLETED);
    EXPECT_GE(static_cast<int>(record.attempt()), fate_.RunsOf(key));
  }

  const std::uint32_t seed_ = std::random_device()();
  Fate fate_{seed_};
  std::unique_ptr<grpc::Service> service_;
  std::map<std::string, std::set<Settled>> all_settled_;
  int calls_ = 0;
};

TEST_P(GuardStorm, EveryKeySettlesWithOneReply) {
  SCOPED_TRACE(absl::StrCat("seed ", seed_));
  {
    ProbeServer& server = ServeStorm();
    const ProbeClient client(server.address());
    Callers callers(client, 0, seed_);
    callers.Await();
    // With calls under way.
    server.Stop(std::chrono::system_clock::now() + milliseconds(20));
    callers.Stop();
    Collect(callers);
  }
  ProbeServer& server = ServeStorm();
  const ProbeClient client(server.address());
  Callers callers(client, calls_, seed_ + kCallers);
  callers.Await();
  callers.Stop();
  Collect(callers);

  fate_.Calm();
  for (const auto& [key, settled] : all_settled_) {
    SCOPED_TRACE(key);
    ExpectOneOutcome(client, key, settled);
  }
  const auto settled = std::count_if(all_settled_.begin(), all_settled_.end(),
                                     [](const auto& of_key) { return !of_key.second.empty(); });
  std::cout << calls_ << " calls, " << all_settled_.size() << " keys, " << settled
            << " settled before the end, " << fate_.runs() << " runs\n";
  // Otherwise it was no storm. A slow machine makes fewer calls in the same time.
  EXPECT_GT(settled, 5);
  server_.reset();
  EXPECT_EQ(GuardedCallTable::Instance().size(), 0U);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardStorm, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

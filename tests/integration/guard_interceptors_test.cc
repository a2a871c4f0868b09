// The guard together with interceptors that change messages, or take their bytes.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"

namespace idempotency::internal::testing {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using Batch = grpc::experimental::InterceptorBatchMethods;

constexpr std::chrono::seconds kLong{20};

// Makes an interceptor for each call, from the given arguments.
template <typename Made, typename Argument>
class FactoryOf final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit FactoryOf(Argument* argument) : argument_(argument) {}
  Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* /*info*/) override {
    return std::make_unique<Made>(argument_).release();  // gRPC deletes it
  }

 private:
  Argument* const argument_;
};

// Sends another message than the handler's: its effect, with a mark added.
class Marking final : public Interceptor {
 public:
  explicit Marking(const std::string* mark) : mark_(*mark) {}
  void Intercept(Batch* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE) &&
        batch->GetSendMessage() != nullptr) {
      marked_ = *static_cast<const ActReply*>(batch->GetSendMessage());
      marked_.set_effect(absl::StrCat(marked_.effect(), mark_));
      batch->ModifySendMessage(&marked_);
    }
    batch->Proceed();
  }

 private:
  const std::string& mark_;
  ActReply marked_;
};

// The bytes taken from the batches of all calls, in order. Thread-safe.
class Taken {
 public:
  void Add(std::string bytes) {
    MutexLock lock(mutex_);
    all_.push_back(std::move(bytes));
  }
  std::vector<std::string> all() {
    MutexLock lock(mutex_);
    return all_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> all_ ABSL_GUARDED_BY(mutex_);
};

// Requests the bytes, which removes the message from the batch.
class Taking final : public Interceptor {
 public:
  explicit Taking(Taken* taken) : taken_(*taken) {}
  void Intercept(Batch* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      const grpc::ByteBuffer* bytes = batch->GetSerializedSendMessage();
      grpc::Slice slice;
      if (!bytes->Valid()) {
        taken_.Add("nothing");
      } else if (bytes->DumpToSingleSlice(&slice).ok()) {
        taken_.Add(std::string(slice.begin(), slice.end()));
      }
    }
    batch->Proceed();
  }

 private:
  Taken& taken_;
};

// Notes the threads on which replies are sent, in order. Thread-safe.
class Threads {
 public:
  void Add() {
    MutexLock lock(mutex_);
    all_.push_back(std::this_thread::get_id());
  }
  std::vector<std::thread::id> all() {
    MutexLock lock(mutex_);
    return all_;
  }

 private:
  Mutex mutex_;
  std::vector<std::thread::id> all_ ABSL_GUARDED_BY(mutex_);
};

class NotingThreads final : public Interceptor {
 public:
  explicit NotingThreads(Threads* threads) : threads_(*threads) {}
  void Intercept(Batch* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) threads_.Add();
    batch->Proceed();
  }

 private:
  Threads& threads_;
};

// Holds the next replies, as an interceptor does that writes to another host. Thread-safe.
class ReplyGate {
 public:
  // The next `count` replies are held until Open().
  void Hold(int count) {
    MutexLock lock(mutex_);
    to_hold_ = count;
    held_ = 0;
    open_ = false;
  }
  void Pass() {
    MutexLock lock(mutex_);
    if (to_hold_ == 0) return;
    --to_hold_;
    ++held_;
    changed_.NotifyAll();
    while (!open_) changed_.Wait(lock);
  }
  // False after 20 s.
  bool AwaitHeld(int count) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    MutexLock lock(mutex_);
    while (held_ < count) {
      if (!changed_.WaitUntil(lock, deadline) && held_ < count) return false;
    }
    return true;
  }
  void Open() {
    MutexLock lock(mutex_);
    to_hold_ = 0;
    open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int to_hold_ ABSL_GUARDED_BY(mutex_) = 0;
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
};

class Holding final : public Interceptor {
 public:
  explicit Holding(ReplyGate* gate) : gate_(*gate) {}
  void Intercept(Batch* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) gate_.Pass();
    batch->Proceed();
  }

 private:
  ReplyGate& gate_;
};

class GuardAndInterceptors : public GuardFixture {
 protected:
  template <typename Made, typename Argument>
  ProbeServer& ServeBehindGuard(Argument& argument) {
    return Serve(WithMap(), [&argument](ProbeServer::Options& options) {
      options.guard.recording_timeout = absl::Seconds(1);
      options.interceptors.push_back(std::make_unique<FactoryOf<Made, Argument>>(&argument));
    });
  }

  // The order of a map distinguishes stored bytes from a message serialised again.
  ProbeHandler WithMap() {
    return [this](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
      for (int i = 0; i < 32; ++i) (*reply.mutable_notes())[absl::StrCat("k", i)] = "v";
      reply.set_effect("paid");
      reply.set_total(++runs_);
      return grpc::Status::OK;
    };
  }
};

// The record is the handler's reply. An interceptor behind the guard makes its change again for
// each answer, first reply and replay alike: once, not on top of an earlier change, and as the
// currently installed interceptor does.
TEST_P(GuardAndInterceptors, ReplacedMessageIsSentAndTheHandlersOwnIsRecorded) {
  std::string mark = "!";
  ProbeServer& server = ServeBehindGuard<Marking>(mark);
  const ProbeClient client(server.address());
  const Outcome first = client.Act("marked");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.reply().effect(), "paid!");
  for (int i = 0; i < 2; ++i) {
    const Outcome retry = client.Act("marked");
    EXPECT_TRUE(retry.replayed());
    EXPECT_EQ(retry.reply().effect(), "paid!");
    EXPECT_EQ(retry.reply().notes().size(), 32);
  }
  ActReply recorded;
  ASSERT_TRUE(recorded.ParseFromString(Get(first.Trailer("idempotency-record")).reply().body()));
  EXPECT_EQ(recorded.effect(), "paid");

  mark = "?";
  EXPECT_EQ(client.Act("marked").reply().effect(), "paid?");
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardAndInterceptors, SerializedMessageIsTheOneThatIsSent) {
  Taken taken;
  ProbeServer& server = ServeBehindGuard<Taking>(taken);
  const ProbeClient client(server.address());
  const Outcome first = client.Act("taken");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.reply().total(), 1);
  const Outcome retry = client.Act("taken");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_EQ(taken.all(), std::vector<std::string>({first.body, first.body}));
  EXPECT_EQ(Get(first.Trailer("idempotency-record")).reply().body(), first.body);
  EXPECT_EQ(client.Act("taken", 7).reason(), Reason::kKeyReused);
  EXPECT_EQ(runs_, 1);
}

// A reply that must not be sent is withheld from them too.
TEST_P(GuardAndInterceptors, WithheldMessageIsNotThereToBeTakenOrReplaced) {
  Taken taken;
  std::string mark = "!";
  ProbeServer& server = Serve(WithMap(), [&](ProbeServer::Options& options) {
    options.guard.recording_timeout = absl::Milliseconds(300);
    options.interceptors.push_back(std::make_unique<FactoryOf<Marking, std::string>>(&mark));
    options.interceptors.push_back(std::make_unique<FactoryOf<Taking, Taken>>(&taken));
  });
  const ProbeClient client(server.address());
  gate_->FailCompletes(MakeError(Reason::kStoreUnavailable, "as the test requests"));
  const Outcome withheld = client.Act("withheld");
  EXPECT_EQ(withheld.reason(), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(withheld.body, "");
  EXPECT_EQ(taken.all(), std::vector<std::string>({"nothing"}));
  gate_->FailCompletes(absl::OkStatus());
  const Outcome retry = client.SendUntilSettled(With("withheld"), kLong);
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.reply().effect(), "paid!");
  EXPECT_EQ(runs_, 1);
}

class GuardAndBlockingInterceptors : public GuardAndInterceptors {
 protected:
  // Other calls must be answered although the replies to these are held.
  void ExpectOthersAnsweredWhileHeld(const std::vector<std::string>& keys, bool replays) {
    const ProbeClient client(server_->address());
    held_replies_.Hold(static_cast<int>(keys.size()));
    std::vector<std::future<Outcome>> held;
    for (const std::string& key : keys) {
      held.push_back(std::async(std::launch::async, [&client, key] { return client.Act(key); }));
    }
    EXPECT_TRUE(held_replies_.AwaitHeld(static_cast<int>(keys.size())));
    Call other = With(keys.front() + "-other");
    // Less than the verdict's timeout: without it the call would be refused in time.
    other.timeout = std::chrono::seconds(5);
    const Outcome outcome = client.Send(other);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
    held_replies_.Open();
    for (std::future<Outcome>& each : held) {
      const Outcome released = each.get();
      EXPECT_TRUE(released.status.ok()) << released.status.error_message();
      EXPECT_EQ(released.replayed(), replays);
    }
  }

  ReplyGate held_replies_;
};

// An interceptor may block: the threads that deliver the store's answers must not wait for it.
TEST_P(GuardAndBlockingInterceptors, AnInterceptorThatBlocksDelaysNoOtherCall) {
  ServeBehindGuard<Holding>(held_replies_);
  ExpectOthersAnsweredWhileHeld({"one", "two"}, /*replays=*/false);
  ExpectOthersAnsweredWhileHeld({"one", "two"}, /*replays=*/true);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardAndBlockingInterceptors,
                         ::testing::ValuesIn(OverEveryIdempotencyd({Api::kSync, Api::kCallback})),
                         ApiName);

class GuardAndSyncInterceptors : public GuardAndInterceptors {};

// Where gRPC runs them without the guard: they may block there, and use its thread-local objects.
TEST_P(GuardAndSyncInterceptors, RunOnTheHandlersThread) {
  Threads threads;
  std::vector<std::thread::id> handlers;
  ProbeServer& server = Serve(
      [this, &handlers](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        handlers.push_back(std::this_thread::get_id());
        reply.set_total(++runs_);
        return grpc::Status::OK;
      },
      [&threads](ProbeServer::Options& options) {
        options.guard.recording_timeout = absl::Milliseconds(300);
        options.interceptors.push_back(
            std::make_unique<FactoryOf<NotingThreads, Threads>>(&threads));
      });
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("recorded").status.ok());
  gate_->FailCompletes(MakeError(Reason::kStoreUnavailable, "as the test asked"));
  EXPECT_EQ(client.Act("not-recorded").reason(), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(threads.all(), handlers);
}

INSTANTIATE_TEST_SUITE_P(SyncApi, GuardAndSyncInterceptors,
                         ::testing::Values(GuardSetup(Api::kSync),
                                           GuardSetup(Api::kSync, Idempotencyd::kEmbeddedSqlite)),
                         ApiName);

INSTANTIATE_TEST_SUITE_P(BothApis, GuardAndInterceptors,
                         ::testing::Values(Api::kSync, Api::kCallback), ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

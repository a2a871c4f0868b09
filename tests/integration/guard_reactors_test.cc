// Features of the callback API alone: message allocators, initial metadata ahead of the reply, and
// a Finish long after the method has returned. In the sync API a unary handler has none of them:
// gRPC owns its messages, sends its initial metadata together with its reply, and takes its return
// for the end.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "google/protobuf/arena.h"

#include "core/mutex.h"
#include "core/protobuf_version.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::Contains;
using ::testing::Pair;

constexpr std::chrono::seconds kLong{20};

// Act as the test defines it.
class ReactingProbe final : public Probe::CallbackService {
 public:
  using Method = std::function<grpc::ServerUnaryReactor*(grpc::CallbackServerContext*,
                                                         const ActRequest*, ActReply*)>;
  explicit ReactingProbe(Method act) : act_(std::move(act)) {}
  grpc::ServerUnaryReactor* Act(grpc::CallbackServerContext* context, const ActRequest* request,
                                ActReply* reply) override {
    return act_(context, request, reply);
  }

 private:
  const Method act_;
};

class GuardAndReactors : public GuardFixture {
 protected:
  ~GuardAndReactors() override { server_.reset(); }

  ProbeServer& ServeMethod(ReactingProbe::Method act,
                           const std::function<void(ReactingProbe&)>& prepare = nullptr,
                           absl::Duration lease = limits::kDefaultLease,
                           absl::Duration recording_timeout = absl::Milliseconds(300)) {
    service_ = std::make_unique<ReactingProbe>(std::move(act));
    if (prepare) prepare(*service_);
    return Serve(nullptr, [&](ProbeServer::Options& options) {
      options.guard.recording_timeout = recording_timeout;
      options.guard.methods["/idempotency.testing.Probe/Act"].MutableReplacementPolicy().lease =
          lease;
      options.protect = [this](ServerGuard& guard, grpc::ServerBuilder& builder) {
        return guard.Protect<Probe>(builder, service_.get());
      };
    });
  }

  std::unique_ptr<ReactingProbe> service_;
};

// Messages on an arena, one per call; counts them.
class ArenaAllocator final : public grpc::MessageAllocator<ActRequest, ActReply> {
 public:
  using Holder = grpc::MessageHolder<ActRequest, ActReply>;

  Holder* AllocateMessages() override {
    ++made_;
    ++alive_;
    return std::make_unique<Messages>(alive_).release();  // released by gRPC
  }
  int made() const { return made_; }
  int alive() const { return alive_; }

 private:
  class Messages final : public Holder {
   public:
    explicit Messages(std::atomic<int>& alive) : alive_(alive) {
      set_request(NewOnArena<ActRequest>(arena_));
      set_response(NewOnArena<ActReply>(arena_));
    }
    void FreeRequest() override { set_request(nullptr); }
    void Release() override {
      const std::unique_ptr<Messages> self(this);
      --alive_;
    }

   private:
    std::atomic<int>& alive_;
    google::protobuf::Arena arena_;
  };

  std::atomic<int> made_{0};
  std::atomic<int> alive_{0};
};

TEST_P(GuardAndReactors, MessagesOfAnAllocatorAreUsedAndReleasedOnce) {
  ArenaAllocator allocator;
  ProbeServer& server = ServeMethod(
      [this](grpc::CallbackServerContext* context, const ActRequest* request, ActReply* reply) {
        EXPECT_NE(reply->GetArena(), nullptr);
        EXPECT_EQ(request->amount(), 1);
        // As handlers with such allocators do: it no longer needs the request.
        EXPECT_NE(context->GetRpcAllocatorState(), nullptr);
        context->GetRpcAllocatorState()->FreeRequest();
        for (int i = 0; i < 32; ++i) (*reply->mutable_notes())[std::to_string(i)] = "v";
        reply->set_total(++runs_);
        grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
      },
      [&](ReactingProbe& service) { service.SetMessageAllocatorFor_Act(&allocator); });
  const ProbeClient client(server.address());
  const Outcome first = client.Act("arena");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  const Outcome retry = client.Act("arena");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_EQ(client.Act("arena", 7).reason(), Reason::kKeyReused);
  Call keyless;
  EXPECT_EQ(client.Send(keyless).reason(), Reason::kKeyMissing);
  EXPECT_EQ(runs_, 1);
  server_.reset();
  EXPECT_EQ(allocator.made(), 4);
  EXPECT_EQ(allocator.alive(), 0);
}

// Sends its initial metadata at once; answers right behind it, or only after it
// has been sent.
class EarlyReactor final : public grpc::ServerUnaryReactor {
 public:
  EarlyReactor(bool wait, grpc::Status status) : wait_(wait), status_(std::move(status)) {
    StartSendInitialMetadata();
    if (!wait_) Finish(status_);
  }
  void OnSendInitialMetadataDone(bool /*ok*/) override {
    if (wait_) Finish(status_);
  }
  void OnDone() override { const std::unique_ptr<EarlyReactor> self(this); }

 private:
  const bool wait_;
  const grpc::Status status_;
};

ReactingProbe::Method Early(std::atomic<int>& runs, bool wait, const grpc::Status& status) {
  return [&runs, wait, status](grpc::CallbackServerContext* context, const ActRequest*,
                               ActReply* reply) {
    context->AddInitialMetadata("early", "1");
    reply->set_total(++runs);
    return std::make_unique<EarlyReactor>(wait, status).release();
  };
}

TEST_P(GuardAndReactors, InitialMetadataSentEarlyIsReplayed) {
  for (const bool wait : {false, true}) {
    runs_ = 0;
    ProbeServer& server = ServeMethod(Early(runs_, wait, grpc::Status::OK));
    const ProbeClient client(server.address());
    const std::string key = wait ? "early-waits" : "early";
    const Outcome first = client.Act(key);
    ASSERT_TRUE(first.status.ok()) << first.status.error_message();
    EXPECT_THAT(first.initial_metadata, Contains(Pair("early", "1")));
    const Outcome retry = client.Act(key);
    EXPECT_TRUE(retry.replayed());
    EXPECT_EQ(retry.body, first.body);
    EXPECT_EQ(retry.initial_metadata, first.initial_metadata);
    EXPECT_EQ(runs_, 1);
  }
}

TEST_P(GuardAndReactors, ErrorAfterInitialMetadataIsReplayedWithIt) {
  const grpc::Status refused(grpc::StatusCode::FAILED_PRECONDITION, "no funds");
  ProbeServer& server = ServeMethod(Early(runs_, true, refused));
  const ProbeClient client(server.address());
  const Outcome first = client.Act("refused");
  EXPECT_EQ(first.status.error_message(), "no funds");
  EXPECT_THAT(first.initial_metadata, Contains(Pair("early", "1")));
  const Outcome retry = client.Act("refused");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.status.error_code(), first.status.error_code());
  EXPECT_EQ(retry.initial_metadata, first.initial_metadata);
  EXPECT_EQ(runs_, 1);
}

// The initial metadata has been sent already; status and message have not.
TEST_P(GuardAndReactors, UnrecordedReplyIsWithheldAlsoAfterInitialMetadata) {
  ProbeServer& server = ServeMethod(Early(runs_, true, grpc::Status::OK));
  const ProbeClient client(server.address());
  gate_->FailCompletes(MakeError(Reason::kStoreUnavailable, "as the test requests"));
  const Outcome withheld = client.Act("withheld");
  EXPECT_EQ(withheld.reason(), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(withheld.body, "");
  gate_->FailCompletes(absl::OkStatus());
  const Outcome retry = client.SendUntilSettled(With("withheld"), kLong);
  EXPECT_TRUE(retry.replayed());
  EXPECT_THAT(retry.initial_metadata, Contains(Pair("early", "1")));
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardAndReactors, FinishLongAfterTheMethodReturnedIsRecorded) {
  std::promise<grpc::ServerUnaryReactor*> left_open;
  ProbeServer& server = ServeMethod(
      [&](grpc::CallbackServerContext* context, const ActRequest*, ActReply* reply) {
        reply->set_total(++runs_);
        grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
        left_open.set_value(reactor);
        return reactor;
      },
      nullptr, absl::Milliseconds(1500));
  const ProbeClient client(server.address());
  std::future<Outcome> first =
      std::async(std::launch::async, [&client] { return client.Act("late"); });
  auto opened = left_open.get_future();
  ASSERT_EQ(opened.wait_for(kLong), std::future_status::ready);
  grpc::ServerUnaryReactor* reactor = opened.get();
  // Longer than the lease, which the guard's heartbeats extend; it is long enough for a busy
  // machine.
  EXPECT_EQ(client.SendUntilSettled(With("late"), std::chrono::seconds(2)).reason(),
            Reason::kInFlight);
  std::thread finisher([reactor] { reactor->Finish(grpc::Status::OK); });
  finisher.join();
  const Outcome outcome = first.get();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  const Outcome retry = client.Act("late");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, outcome.body);
  EXPECT_EQ(Get(outcome.Trailer("idempotency-record")).attempt(), 1U);
  EXPECT_EQ(runs_, 1);
}

// The message belongs to gRPC after Finish. A handler that clears it nevertheless, while its reply
// is being recorded, must not make the first reply differ from its replays.
TEST_P(GuardAndReactors, TheReplyIsTheMessageAsItWasAtFinish) {
  std::promise<ActReply*> finished;
  ProbeServer& server = ServeMethod(
      [&](grpc::CallbackServerContext* context, const ActRequest*, ActReply* reply) {
        for (int i = 0; i < 32; ++i) (*reply->mutable_notes())[std::to_string(i)] = "v";
        reply->set_total(++runs_);
        grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        finished.set_value(reply);
        return reactor;
      },
      /*prepare=*/nullptr, limits::kDefaultLease, /*recording_timeout=*/absl::Seconds(10));
  const ProbeClient client(server.address());
  gate_->HoldCompletes();
  std::future<Outcome> first =
      std::async(std::launch::async, [&client] { return client.Act("cleared"); });
  EXPECT_TRUE(gate_->AwaitHeld(1));
  auto reply = finished.get_future();
  EXPECT_EQ(reply.wait_for(kLong), std::future_status::ready);
  reply.get()->Clear();
  gate_->OpenAll();
  const Outcome outcome = first.get();
  ASSERT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.reply().total(), 1);
  const Outcome retry = client.Act("cleared");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, outcome.body);
  EXPECT_EQ(runs_, 1);
}

// A handler that blocks breaks the callback API's rule, and gRPC itself tolerates as many as it has
// threads. The guard's own work is on those threads too, so here more handlers block than gRPC has
// threads on a small machine.
TEST_P(GuardAndReactors, HandlersThatBlockDelayNoOtherCall) {
  constexpr int kBlocked = 4;
  constexpr std::int64_t kBlocks = 99;
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::promise<void> all_blocked;
  std::atomic<int> blocked{0};
  ProbeServer& server = ServeMethod(
      [&](grpc::CallbackServerContext* context, const ActRequest* request, ActReply* reply) {
        if (request->amount() == kBlocks) {
          if (++blocked == kBlocked) all_blocked.set_value();
          opened.wait();
        }
        reply->set_total(++runs_);
        grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
      });
  const ProbeClient client(server.address());
  const Outcome earlier = client.Act("earlier");
  ASSERT_TRUE(earlier.status.ok()) << earlier.status.error_message();

  std::vector<std::future<Outcome>> held;
  for (int i = 0; i < kBlocked; ++i) {
    held.push_back(std::async(std::launch::async, [&client, i] {
      return client.Act("blocked-" + std::to_string(i), kBlocks);
    }));
  }
  // Each has a thread, none waits behind another.
  EXPECT_EQ(all_blocked.get_future().wait_for(kLong), std::future_status::ready);
  for (int i = 0; i < 3; ++i) {
    const Outcome first = client.Act("free-" + std::to_string(i));
    EXPECT_TRUE(first.status.ok()) << first.status.error_message();
    EXPECT_FALSE(first.replayed());
  }
  EXPECT_TRUE(client.Act("earlier").replayed());
  EXPECT_EQ(client.Act("earlier", 7).reason(), Reason::kKeyReused);
  EXPECT_EQ(client.Act("blocked-0", kBlocks).reason(), Reason::kInFlight);

  open.set_value();
  for (std::future<Outcome>& each : held) {
    const Outcome outcome = each.get();
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  }
  EXPECT_EQ(runs_, kBlocked + 4);
}

// Calls over GuardOptions::threads wait for a thread, and delay neither replays nor other verdicts.
TEST_P(GuardAndReactors, ACallWithoutAThreadWaitsForOne) {
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::promise<void> entered;
  service_ = std::make_unique<ReactingProbe>(
      [&](grpc::CallbackServerContext* context, const ActRequest* /*request*/, ActReply* reply) {
        if (++runs_ == 2) {
          entered.set_value();
          opened.wait();
        }
        reply->set_total(runs_);
        grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
      });
  ProbeServer& server = Serve(nullptr, [&](ProbeServer::Options& options) {
    options.guard.threads.handlers = 1;
    options.protect = [this](ServerGuard& guard, grpc::ServerBuilder& builder) {
      return guard.Protect<Probe>(builder, service_.get());
    };
  });
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("earlier").status.ok());
  std::future<Outcome> first =
      std::async(std::launch::async, [&client] { return client.Act("first"); });
  EXPECT_EQ(entered.get_future().wait_for(kLong), std::future_status::ready);
  std::future<Outcome> second =
      std::async(std::launch::async, [&client] { return client.Act("second"); });
  EXPECT_TRUE(client.Act("earlier").replayed());
  open.set_value();
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_TRUE(second.get().status.ok());
  EXPECT_EQ(runs_, 3);
}

// An interceptor that does nothing.
class Passing final : public grpc::experimental::Interceptor {
 public:
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override { batch->Proceed(); }
};

class PassingFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* /*info*/) override {
    return std::make_unique<Passing>().release();  // gRPC deletes it
  }
};

// The application's interceptors run for it on threads of their own.
TEST_P(GuardAndReactors, AReplayThatInterceptorsSeeWaitsForNoHandler) {
  // A handler of an embedded service may also run on the thread that has its verdict, one at a
  // time.
  const int places = daemon_.has_value() ? 1 : 2;
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::promise<void> all_held;
  service_ = std::make_unique<ReactingProbe>(
      [&](grpc::CallbackServerContext* context, const ActRequest* /*request*/, ActReply* reply) {
        const int run = ++runs_;
        if (run == 1 + places) all_held.set_value();
        if (run > 1) opened.wait();
        reply->set_total(run);
        grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
      });
  ProbeServer& server = Serve(nullptr, [&](ProbeServer::Options& options) {
    options.guard.threads.handlers = 1;
    options.interceptors.push_back(std::make_unique<PassingFactory>());
    options.protect = [this](ServerGuard& guard, grpc::ServerBuilder& builder) {
      return guard.Protect<Probe>(builder, service_.get());
    };
  });
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("earlier").status.ok());
  std::vector<std::future<Outcome>> held;
  for (int i = 0; i < places; ++i) {
    held.push_back(std::async(std::launch::async,
                              [&client, i] { return client.Act("held-" + std::to_string(i)); }));
  }
  EXPECT_EQ(all_held.get_future().wait_for(kLong), std::future_status::ready);
  Call again = With("earlier");
  again.timeout = std::chrono::seconds(5);
  const Outcome retry = client.Send(again);
  EXPECT_TRUE(retry.replayed()) << retry.status.error_message();
  open.set_value();
  for (std::future<Outcome>& each : held) EXPECT_TRUE(each.get().status.ok());
}

TEST_P(GuardAndReactors, ACallThatLostItsLeaseWhileItWaitedForAThreadDoesNotRun) {
  // A handler of an embedded service may also run on the thread that has its verdict, one at a
  // time.
  const int places = daemon_.has_value() ? 1 : 2;
  std::promise<void> open;
  const std::shared_future<void> opened = open.get_future().share();
  std::promise<void> entered;
  std::promise<void> all_lost;
  std::atomic<int> lost{0};
  service_ = std::make_unique<ReactingProbe>(
      [&](grpc::CallbackServerContext* context, const ActRequest* /*request*/, ActReply* reply) {
        const int run = ++runs_;
        if (run == places) entered.set_value();
        if (run <= places) opened.wait();
        reply->set_total(runs_);
        grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
        reactor->Finish(grpc::Status::OK);
        return reactor;
      });
  ProbeServer& server = Serve(nullptr, [&](ProbeServer::Options& options) {
    options.guard.threads.handlers = 1;
    MethodPolicy& policy =
        options.guard.methods["/idempotency.testing.Probe/Act"].MutableReplacementPolicy();
    // No heartbeat extends it further.
    policy.lease = policy.max_lease = absl::Seconds(2);
    options.guard.hooks.on_lost = [&](const LostEvent&) {
      if (++lost == places + 1) all_lost.set_value();
    };
    options.protect = [this](ServerGuard& guard, grpc::ServerBuilder& builder) {
      return guard.Protect<Probe>(builder, service_.get());
    };
  });
  const ProbeClient client(server.address());
  std::vector<std::future<Outcome>> running;
  for (int i = 0; i < places; ++i) {
    running.push_back(std::async(
        std::launch::async, [&client, i] { return client.Act("running-" + std::to_string(i)); }));
  }
  EXPECT_EQ(entered.get_future().wait_for(kLong), std::future_status::ready);
  std::future<Outcome> waiting =
      std::async(std::launch::async, [&client] { return client.Act("waiting"); });
  EXPECT_EQ(all_lost.get_future().wait_for(kLong), std::future_status::ready);
  open.set_value();
  for (std::future<Outcome>& outcome : running) EXPECT_TRUE(outcome.get().status.ok());
  EXPECT_EQ(waiting.get().reason(), Reason::kReservationLost);
  EXPECT_EQ(runs_, places);
}

INSTANTIATE_TEST_SUITE_P(CallbackApi, GuardAndReactors,
                         ::testing::ValuesIn(OverEveryIdempotencyd({Api::kCallback})), ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

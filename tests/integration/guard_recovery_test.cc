// The ways in which an execution can end abnormally, with a real idempotencyd: it is lost, its
// process is killed, its outcome stays unknown, its store is unavailable.
#include <gmock/gmock.h>

#include <cstdint>
#include <future>
#include <map>
#include <string>
#include <thread>

#include "core/mutex.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"
#include "tests/support/gate.h"
#include "tests/support/process.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
constexpr std::chrono::seconds kSoon{20};

class GuardRecovery : public GuardFixture {
 protected:
  static void ShortLease(ProbeServer::Options& options) {
    MethodPolicy& policy = options.guard.methods[kAct].MutableReplacementPolicy();
    policy.lease = absl::Seconds(1);
    policy.max_lease = absl::Seconds(1);
  }
  static Call With(const std::string& key, const std::string& account) {
    Call call = GuardFixture::With(key);
    call.account = account;
    return call;
  }
};

TEST_P(GuardRecovery, HandlerPastItsMaxLeaseLosesAndItsRetryGetsTheWinnersReply) {
  Gate gate;
  std::atomic<bool> lost{false};
  std::promise<std::uint32_t> lost_attempt;
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        Execution* const execution = Execution::FromContext(&context);
        reply.set_total(execution->attempt());
        if (execution->attempt() > 1) return grpc::Status::OK;
        gate.Enter();
        lost = execution->lost();
        return grpc::Status::OK;
      },
      [&](ProbeServer::Options& options) {
        ShortLease(options);
        options.guard.hooks.on_lost = [&](const LostEvent& event) {
          lost_attempt.set_value(event.attempt);
        };
      });
  const ProbeClient client(server.address());
  auto slow = std::async(std::launch::async, [&] { return client.Send(With("k", "alice")); });
  ASSERT_TRUE(gate.AwaitInside(1));
  const Outcome winner = client.SendUntilSettled(With("k", "alice"), kSoon);
  ASSERT_TRUE(winner.status.ok()) << winner.status.error_message();
  EXPECT_EQ(winner.reply().total(), 2);
  gate.Open();
  const Outcome loser = slow.get();
  EXPECT_EQ(loser.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(loser.reason(), Reason::kReservationLost);
  EXPECT_TRUE(lost);
  EXPECT_EQ(lost_attempt.get_future().get(), 1u);
  const Outcome retry = client.Send(With("k", "alice"));
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, winner.body);
}

TEST_P(GuardRecovery, LostExecutionWithoutATakeOverIsStillRecorded) {
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        const auto deadline = std::chrono::steady_clock::now() + kSoon;
        Execution* const execution = Execution::FromContext(&context);
        while (!execution->lost() && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::yield();
        }
        reply.set_total(++runs_);
        return grpc::Status::OK;
      },
      ShortLease);
  const ProbeClient client(server.address());
  const Outcome first = client.Send(With("k", "alice"));
  EXPECT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(client.Send(With("k", "alice")).body, first.body);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardRecovery, LostExecutionsCallIsCancelledIfThePolicySetsIt) {
  // The client gets its status before the handler has answered.
  std::promise<bool> cancelled;
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
        if (++runs_ > 1) return grpc::Status::OK;
        const auto deadline = std::chrono::steady_clock::now() + kSoon;
        while (!context.IsCancelled() && std::chrono::steady_clock::now() < deadline) {
          std::this_thread::yield();
        }
        cancelled.set_value(context.IsCancelled());
        return grpc::Status::CANCELLED;
      },
      [](ProbeServer::Options& options) {
        ShortLease(options);
        options.guard.methods[kAct].MutableReplacementPolicy().cancel_when_lost = true;
      });
  const ProbeClient client(server.address());
  const Outcome outcome = client.Send(With("k", "alice"));
  EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(client.SendUntilSettled(With("k", "alice"), kSoon).status.ok());
  EXPECT_TRUE(cancelled.get_future().get());
  EXPECT_EQ(runs_, 2);
}

TEST_P(GuardRecovery, KilledProcessIsRecoveredFromItsCheckpoint) {
  auto dying = Process::Start({"dying_server", daemon_->address(),
                               GetParam() == Api::kSync ? "sync" : "callback"})
                   .value();
  static constexpr char kServing[] = "serving on ";
  const ProbeClient doomed(dying->WaitForLine(kServing).value().substr(sizeof(kServing) - 1));
  std::vector<std::future<Outcome>> calls;
  for (const std::string account : {"complete", "release", "leave"}) {
    calls.push_back(std::async(std::launch::async,
                               [&doomed, account] { return doomed.Send(With(account, account)); }));
    ASSERT_TRUE(dying->WaitForLine("stored " + account).ok()) << dying->Stdout();
  }
  dying->Kill();
  for (auto& call : calls) EXPECT_FALSE(call.get().status.ok());

  Mutex mutex;
  std::map<std::string, int> recoveries;
  std::map<std::string, int> runs;
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase& context, const ActRequest& request, ActReply& reply) {
        MutexLock lock(mutex);
        ++runs[request.account()];
        reply.set_effect("ran after " + Execution::FromContext(&context)->checkpoint());
        reply.set_total(Execution::FromContext(&context)->attempt());
        return grpc::Status::OK;
      },
      [&](ProbeServer::Options& options) {
        MethodPolicy& policy = options.guard.methods[kAct].MutableReplacementPolicy();
        policy.lease = absl::Milliseconds(1000);
        policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
        using Decision = TypedRecoveryDecision<ActReply>;
        options.guard.methods[kAct].recovery = TypedRecovery<ActRequest, ActReply>(
            [&](const RecoveryCase& recovery, const ActRequest* request) -> Decision {
              MutexLock lock(mutex);
              ++recoveries[request->account()];
              EXPECT_EQ(recovery.checkpoint, "charged " + request->account());
              EXPECT_GE(recovery.attempt, 2u);
              ActReply reply;
              reply.set_effect("recovered from " + recovery.checkpoint);
              if (request->account() == "complete") return Decision::CompleteWith(reply);
              return request->account() == "release" ? Decision::Release()
                                                     : Decision::LeaveUnknown();
            });
      });
  const ProbeClient client(server.address());
  const auto settle = [&client](const std::string& account) {
    return client.SendUntilSettled(With(account, account), kSoon);
  };
  EXPECT_EQ(settle("complete").reply().effect(), "recovered from charged complete");
  EXPECT_TRUE(settle("complete").replayed());
  EXPECT_EQ(settle("release").reply().effect(), "ran after charged release");
  EXPECT_EQ(settle("release").reply().total(), 2);
  EXPECT_EQ(settle("leave").reason(), Reason::kOutcomeUnknown);
  EXPECT_EQ(settle("leave").reason(), Reason::kOutcomeUnknown);
  EXPECT_TRUE(settle("fresh").status.ok());
  EXPECT_EQ(recoveries,
            (std::map<std::string, int>{{"complete", 1}, {"release", 1}, {"leave", 2}}));
  EXPECT_EQ(runs, (std::map<std::string, int>{{"fresh", 1}, {"release", 1}}));
}

TEST_P(GuardRecovery, UnknownOutcomeIsRecoveredInTheBackground) {
  std::promise<void> recovered;
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
        ++runs_;
        return grpc::Status(grpc::StatusCode::INTERNAL, "who knows");
      },
      [&](ProbeServer::Options& options) {
        options.guard.methods[kAct].MutableReplacementPolicy().on_unknown_outcome =
            MethodPolicy::OnUnknownOutcome::kRequireRecovery;
        options.guard.background_recovery = true;
        options.guard.methods[kAct].recovery = [](const RecoveryCase& recovery) {
          EXPECT_EQ(recovery.request, nullptr);
          ActReply reply;
          reply.set_effect("found");
          return RecoveryDecision::CompleteWith(reply);
        };
        options.guard.hooks.on_recorded = [&](const RecordedEvent& event) {
          if (event.disposition == Disposition::kComplete) recovered.set_value();
        };
      });
  const ProbeClient client(server.address());
  const Outcome first = client.Send(With("k", "alice"));
  EXPECT_EQ(first.status.error_message(), "who knows");
  ASSERT_EQ(recovered.get_future().wait_for(kSoon), std::future_status::ready);
  EXPECT_EQ(Get(first.Trailer("idempotency-record")).state(), v1::RECORD_STATE_COMPLETED);
  const Outcome again = client.Send(With("k", "alice"));
  EXPECT_EQ(again.reply().effect(), "found");
  EXPECT_TRUE(again.replayed());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardRecovery, FailOpenRunsUnguardedWhileTheStoreIsAway) {
  ProbeServer& server = Serve(Counting(), [](ProbeServer::Options& options) {
    options.guard.methods[kAct].MutableReplacementPolicy().fail_open = true;
    options.guard.verdict_timeout = absl::Milliseconds(300);
  });
  const ProbeClient client(server.address());
  EXPECT_TRUE(client.Send(With("before", "alice")).status.ok());
  // On a busy machine the timeout may have been too short for that call.
  const std::uint64_t before = server.guard().calls_failed_open();
  daemon_->Kill();
  const Outcome open = client.Send(With("k", "alice"));
  EXPECT_TRUE(open.status.ok()) << open.status.error_message();
  EXPECT_THAT(open.trailing_metadata, ::testing::IsEmpty());
  EXPECT_EQ(server.guard().calls_failed_open(), before + 1);
  EXPECT_EQ(runs_, 2);
}

INSTANTIATE_TEST_SUITE_P(Apis, GuardRecovery, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

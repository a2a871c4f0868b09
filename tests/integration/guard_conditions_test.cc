// The conditions that are difficult for a guard, each in gRPC's sync and callback API, on a real
// server and a real idempotencyd.
#include <gmock/gmock.h>
#include <grpcpp/ext/channelz_service_plugin.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "grpc_idempotency/error_reflection.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"
#include "tests/support/gate.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;

constexpr char kAct[] = "/idempotency.testing.Probe/Act";
constexpr std::chrono::seconds kLong{20};

std::chrono::system_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::system_clock::now() + time;
}

using GuardConditions = GuardFixture;

// The client cancels while its verdict is pending.

TEST_P(GuardConditions, ClientThatLeavesBeforeTheVerdictLeavesNoStuckKey) {
  ProbeServer& server = Serve(Counting());
  const ProbeClient client(server.address());
  gate_->HoldReserves();
  Call call = With("left");
  Outcome left;
  std::thread caller([&] { left = client.Send(call); });
  ASSERT_TRUE(gate_->AwaitHeld(1));
  call.context->TryCancel();
  caller.join();
  EXPECT_EQ(left.status.error_code(), grpc::StatusCode::CANCELLED);
  gate_->OpenAll();

  // Whether or not the handler ran for the cancelled call: the retry settles at once (nothing waits
  // for a lease), and altogether the handler ran once.
  const Outcome retry = client.SendUntilSettled(With("left"), kLong);
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(retry.reply().total(), 1);
}

TEST_P(GuardConditions, DeadlineThatPassesBeforeTheVerdictLeavesNoStuckKey) {
  ProbeServer& server = Serve(Counting());
  const ProbeClient client(server.address());
  gate_->HoldReserves();
  Call call = With("late");
  call.timeout = std::chrono::milliseconds(300);
  const Outcome late = client.Send(call);
  EXPECT_THAT(late.status.error_code(),
              AnyOf(grpc::StatusCode::DEADLINE_EXCEEDED, grpc::StatusCode::UNAVAILABLE));
  gate_->OpenAll();
  const Outcome retry = client.SendUntilSettled(With("late"), kLong);
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_EQ(runs_, 1);
}

// The client cancels while the handler runs.

TEST_P(GuardConditions, ClientThatLeavesDuringTheHandlerDoesNotCancelTheRecording) {
  Gate gate;
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    gate.Enter();
    reply.set_total(++runs_);
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());
  Call call = With("hang-up");
  std::thread caller([&] { client.Send(call); });
  ASSERT_TRUE(gate.AwaitInside(1));
  call.context->TryCancel();
  caller.join();
  gate.Open();
  const Outcome retry = client.SendUntilSettled(With("hang-up"), kLong);
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardConditions, CancelledIsNeverRecorded) {
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        reply.set_total(++runs_);
        if (runs_ == 1) return grpc::Status(grpc::StatusCode::CANCELLED, "the client left");
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        MethodPolicy policy;
        policy.lease = absl::Milliseconds(1500);
        options.guard.methods[kAct].policy = policy;
      });
  const ProbeClient client(server.address());
  EXPECT_EQ(client.Act("cancelled").status.error_code(), grpc::StatusCode::CANCELLED);
  // Its work may still be under way, so its lease runs out first.
  EXPECT_EQ(client.Act("cancelled").reason(), Reason::kInFlight);
  const Outcome retry = client.SendUntilSettled(With("cancelled"), kLong);
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_FALSE(retry.replayed());
  EXPECT_EQ(runs_, 2);
}

// The handler throws.

TEST_P(GuardConditions, HandlerThatThrowsIsIndefiniteAndNotRecorded) {
  ProbeServer& server = Serve(Counting());
  const ProbeClient client(server.address());
  Call call = With("throws");
  call.account = kThrowing;
  const Outcome thrown = client.Send(call);
  EXPECT_THAT(thrown.status.error_code(),
              AnyOf(grpc::StatusCode::UNKNOWN, grpc::StatusCode::UNIMPLEMENTED));
  call.context = std::make_shared<grpc::ClientContext>();
  const Outcome again = client.Send(call);
  EXPECT_EQ(again.reason(), Reason::kInFlight) << "it pauses before it runs again";
  const v1::Record record = Get(again.Trailer("idempotency-record"));
  EXPECT_EQ(record.attempt(), 1);
  EXPECT_EQ(record.state(), v1::RECORD_STATE_RELEASED);
  EXPECT_THAT(record.release_reason(), ::testing::HasSubstr("or threw"));
}

// Shutdown.

TEST_P(GuardConditions, ShutdownIsNotHeldUpByAPendingVerdict) {
  ProbeServer& server = Serve(Counting(), [](ProbeServer::Options& options) {
    options.guard.verdict_timeout = absl::Seconds(60);
  });
  const ProbeClient client(server.address());
  gate_->HoldReserves();
  Outcome pending;
  std::thread caller([&] { pending = client.Act("pending"); });
  ASSERT_TRUE(gate_->AwaitHeld(1));
  const auto start = std::chrono::steady_clock::now();
  server.Stop(In(std::chrono::seconds(10)));
  caller.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  EXPECT_EQ(pending.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(runs_, 0);
  gate_->OpenAll();
}

TEST_P(GuardConditions, ShutdownIsBoundedWithAPendingCompletion) {
  ProbeServer& server = Serve(Counting(), [](ProbeServer::Options& options) {
    options.guard.recording_timeout = absl::Seconds(1);
  });
  const ProbeClient client(server.address());
  gate_->HoldCompletes();
  Outcome pending;
  std::thread caller([&] { pending = client.Act("pending"); });
  ASSERT_TRUE(gate_->AwaitHeld(1));
  const auto start = std::chrono::steady_clock::now();
  server.Stop(In(std::chrono::milliseconds(200)));
  caller.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8));
  EXPECT_EQ(pending.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(runs_, 1);
  gate_->OpenAll();
}

// How often the handler ran for each account. Thread-safe.
class RunsOfAccounts {
 public:
  ProbeHandler Handler() {
    return [this](grpc::ServerContextBase&, const ActRequest& request, ActReply& reply) {
      const MutexLock lock(mutex_);
      reply.set_total(++runs_[request.account()]);
      return grpc::Status::OK;
    };
  }
  int Of(const std::string& account) {
    const MutexLock lock(mutex_);
    return runs_[account];
  }

 private:
  Mutex mutex_;
  std::map<std::string, int> runs_ ABSL_GUARDED_BY(mutex_);
};

TEST_P(GuardConditions, ServersComeAndGoUnderCancelledCalls) {
  RunsOfAccounts runs;
  for (int round = 0; round < 10; ++round) {
    ProbeServer& server = Serve(runs.Handler(), [](ProbeServer::Options& options) {
      MethodPolicy policy;
      policy.in_flight = MethodPolicy::InFlight::kWait;
      policy.max_wait = absl::FromChrono(kLong);
      options.guard.methods[kAct].policy = policy;
    });
    const ProbeClient client(server.address());
    // Four calls of each key, of which two are cancelled.
    std::vector<Call> calls;
    std::vector<Outcome> outcomes(8);
    std::vector<std::thread> callers;
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      calls.push_back(With(absl::StrCat(round, "-", i / 4)));
      calls.back().account = calls.back().keys.front();
    }
    for (std::size_t i = 0; i < calls.size(); ++i) {
      callers.emplace_back([&, i] { outcomes[i] = client.Send(calls[i]); });
    }
    for (std::size_t i = 0; i < calls.size(); i += 2) calls[i].context->TryCancel();
    server.Stop(In(std::chrono::milliseconds(round * 3)));
    for (std::thread& caller : callers) caller.join();
    server_.reset();
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const grpc::Status& status = outcomes[i].status;
      EXPECT_THAT(status.error_code(), AnyOf(grpc::StatusCode::OK, grpc::StatusCode::CANCELLED,
                                             grpc::StatusCode::UNAVAILABLE))
          << calls[i].account << ": " << status.error_message();
      const int ran = runs.Of(calls[i].account);
      EXPECT_LE(ran, 1) << calls[i].account;
      if (status.ok()) {
        EXPECT_EQ(ran, 1) << calls[i].account;
      }
    }
  }
}

// Few threads.

TEST_P(GuardConditions, FewThreadsAndManyWaitersStillRunOnce) {
  Gate gate;
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        gate.Enter();
        reply.set_total(++runs_);
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        MethodPolicy policy;
        policy.in_flight = MethodPolicy::InFlight::kWait;
        policy.max_wait = absl::Seconds(10);
        options.guard.methods[kAct].policy = policy;
        options.configure = [](grpc::ServerBuilder& builder) {
          grpc::ResourceQuota quota;
          quota.SetMaxThreads(6);
          builder.SetResourceQuota(quota);
        };
      });
  const ProbeClient client(server.address());
  std::atomic<int> exhausted{0};
  std::atomic<int> ok{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 24; ++i) {
    callers.emplace_back([&] {
      const Outcome outcome = client.Act("crowd");
      if (outcome.status.ok()) ++ok;
      if (outcome.status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED) ++exhausted;
    });
  }
  ASSERT_TRUE(gate.AwaitInside(1));
  gate.Open();
  for (std::thread& caller : callers) caller.join();
  // With the sync API waiting callers hold threads, and gRPC refuses the rest:
  // why the documentation recommends the callback API for methods that wait.
  EXPECT_EQ(ok + exhausted, 24);
  if (GetParam() == Api::kCallback) {
    EXPECT_EQ(exhausted, 0);
  }
  EXPECT_TRUE(client.SendUntilSettled(With("crowd"), kLong).replayed());
  EXPECT_EQ(runs_, 1);
}

// Compression, sizes.

TEST_P(GuardConditions, CompressionOfTheReplyIsKept) {
  ProbeServer& server =
      Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
        reply.set_payload(std::string(100000, 'x'));
        reply.set_total(++runs_);
        return grpc::Status::OK;
      });
  const ProbeClient client(server.address());
  const Outcome first = client.Act("gzip");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  const Outcome retry = client.Act("gzip");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_EQ(retry.initial_metadata, first.initial_metadata);
  const v1::Reply reply = Get(first.Trailer("idempotency-record")).reply();
  const bool kept = std::any_of(reply.initial_metadata().begin(), reply.initial_metadata().end(),
                                [](const auto& entry) { return entry.value() == "gzip"; });
  EXPECT_TRUE(kept) << reply.ShortDebugString().substr(0, 500);
}

TEST_P(GuardConditions, CompressionLevelIsKept) {
  ProbeServer& server =
      Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        context.set_compression_level(GRPC_COMPRESS_LEVEL_HIGH);
        reply.set_payload(std::string(100000, 'x'));
        reply.set_total(++runs_);
        return grpc::Status::OK;
      });
  const ProbeClient client(server.address());
  const Outcome first = client.Act("level");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  const Outcome retry = client.Act("level");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_EQ(Get(first.Trailer("idempotency-record")).reply().compression_level(),
            GRPC_COMPRESS_LEVEL_HIGH);
}

TEST_P(GuardConditions, ReplyOverTheSendLimitFailsTheSameWayOnReplay) {
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        reply.set_payload(std::string(64 * 1024, 'x'));
        reply.set_total(++runs_);
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        options.configure = [](grpc::ServerBuilder& builder) {
          builder.SetMaxSendMessageSize(32 * 1024);
        };
      });
  const ProbeClient client(server.address());
  EXPECT_EQ(client.Act("big").status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(client.Act("big").status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardConditions, ReplyOverTheRecordLimitIsCompletedWithoutItsContent) {
  ProbeServer& server = Serve(
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
        reply.set_payload(std::string(64 * 1024, 'x'));
        reply.set_total(++runs_);
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) { options.guard.max_reply_bytes = 32 * 1024; });
  const ProbeClient client(server.address());
  const Outcome first = client.Act("huge");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.reply().payload().size(), 64 * 1024);
  const Outcome retry = client.Act("huge");
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(retry.reason(), Reason::kReplyNotKept);
  EXPECT_EQ(runs_, 1);
}

// Other things on the same server.

TEST_P(GuardConditions, ReflectionHealthChannelzAndAnotherServiceWork) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::channelz::experimental::InitChannelzService();
  ReflectErrorDetails();
  ProbeServer& server = Serve(Counting());
  const ProbeClient client(server.address());
  EXPECT_TRUE(client.Act("beside").status.ok());
  auto reflection = Process::Start({"reflection_client", "-plaintext", server.address(), "list"});
  ASSERT_TRUE(reflection.ok());
  ASSERT_TRUE((*reflection)->Wait().ok());
  EXPECT_THAT((*reflection)->Stdout(), ::testing::HasSubstr("idempotency.testing.Probe"))
      << (*reflection)->Stderr();
  EXPECT_THAT((*reflection)->Stdout(), ::testing::HasSubstr("grpc.channelz.v1.Channelz"));
  // The lookups of grpcurl when it prints an error.
  for (const char* detail : {"ErrorInfo", "RetryInfo", "BadRequest"}) {
    const std::string name = absl::StrCat("google.rpc.", detail);
    auto described =
        Process::Start({"reflection_client", "-plaintext", server.address(), "describe", name});
    ASSERT_TRUE(described.ok());
    ASSERT_TRUE((*described)->Wait().ok());
    EXPECT_THAT((*described)->Stdout(), ::testing::HasSubstr(absl::StrCat("message ", detail)))
        << (*described)->Stderr();
  }
  auto health = Process::Start(
      {"reflection_client", "-plaintext", server.address(), "describe", "grpc.health.v1.Health"});
  ASSERT_TRUE(health.ok());
  ASSERT_TRUE((*health)->Wait().ok());
  EXPECT_EQ(server.server().GetHealthCheckService() == nullptr, false);
}

TEST_P(GuardConditions, InProcessChannelsAreGuardedToo) {
  ProbeServer& server = Serve(Counting());
  const ProbeClient client(server.server().InProcessChannel(grpc::ChannelArguments()));
  const Outcome first = client.Act("in-process");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  const Outcome retry = client.Act("in-process");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardConditions, StreamingMethodsAreHandedThrough) {
  ProbeServer& server = Serve(Counting());
  auto stub =
      Probe::NewStub(grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  ActRequest request;
  request.set_amount(5);
  {
    grpc::ClientContext context;
    auto reader = stub->Watch(&context, request);
    ActReply reply;
    int received = 0;
    while (reader->Read(&reply)) ++received;
    EXPECT_TRUE(reader->Finish().ok());
    EXPECT_EQ(received, 5);
  }
  if (GetParam() == Api::kCallback) return;  // the callback probe streams replies only
  {
    grpc::ClientContext context;
    ActReply reply;
    auto writer = stub->Collect(&context, &reply);
    for (int i = 0; i < 4; ++i) writer->Write(request);
    writer->WritesDone();
    EXPECT_TRUE(writer->Finish().ok());
    EXPECT_EQ(reply.total(), 20);
  }
  grpc::ClientContext context;
  auto stream = stub->Talk(&context);
  ActReply reply;
  stream->Write(request);
  EXPECT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.total(), 5);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

// Another party's interceptor: sees every message, may change it.
class Watching final : public grpc::experimental::Interceptor {
 public:
  explicit Watching(std::atomic<int>* sent, std::atomic<int>* received)
      : sent_(sent), received_(received) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      // As such interceptors do: casts it to the method's own type.
      const auto* reply = static_cast<const ActReply*>(methods->GetSendMessage());
      if (reply != nullptr && reply->total() >= 0) ++*sent_;
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_MESSAGE)) {
      const auto* request = static_cast<const ActRequest*>(methods->GetRecvMessage());
      if (request != nullptr && request->account() == "alice") ++*received_;
    }
    methods->Proceed();
  }

 private:
  std::atomic<int>* const sent_;
  std::atomic<int>* const received_;
};

class WatchingFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  WatchingFactory(std::atomic<int>* sent, std::atomic<int>* received)
      : sent_(sent), received_(received) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* /*info*/) override {
    return std::make_unique<Watching>(sent_, received_).release();  // gRPC deletes it
  }

 private:
  std::atomic<int>* const sent_;
  std::atomic<int>* const received_;
};

TEST_P(GuardConditions, OtherInterceptorsSeeEveryMessageAlsoOnReplays) {
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  ProbeServer& server = Serve(Counting(), [&](ProbeServer::Options& options) {
    options.interceptors.push_back(std::make_unique<WatchingFactory>(&sent, &received));
  });
  const ProbeClient client(server.address());
  ASSERT_TRUE(client.Act("watched").status.ok());
  EXPECT_TRUE(client.Act("watched").replayed());
  EXPECT_EQ(client.Act("watched", 7).reason(), Reason::kKeyReused);
  EXPECT_EQ(sent, 2);
  EXPECT_EQ(received, 3);
}

TEST_P(GuardConditions, ReplacedInterceptorsFailTheCallBeforeTheHandler) {
  class Nothing final : public grpc::experimental::ServerInterceptorFactoryInterface {
    grpc::experimental::Interceptor* CreateServerInterceptor(
        grpc::experimental::ServerRpcInfo* /*info*/) override {
      return nullptr;
    }
  };
  // As in a program that calls SetInterceptorCreators after Install().
  auto service = ProbeService::Make(GetParam(), Counting());
  GuardOptions options;
  options.name_space = "probe";
  options.scope = SharedScope("everybody");
  options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  auto guard = ServerGuard::Create(channel_, options).value();
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  ASSERT_TRUE(guard->Protect<Probe>(builder, service->service()).ok());
  ASSERT_TRUE(guard->Install(builder).ok());
  ServerGuard::InterceptorFactories replaced;
  replaced.push_back(std::make_unique<Nothing>());
  builder.experimental().SetInterceptorCreators(std::move(replaced));
  auto server = builder.BuildAndStart();
  const ProbeClient client(absl::StrCat("127.0.0.1:", port));
  const Outcome refused = client.Act("unprotected");
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(runs_, 0);
  guard->Close();
  server->Shutdown();
}

// Bytes.

TEST_P(GuardConditions, ReplaysAreTheSameByteForByte) {
  ProbeServer& server =
      Serve([&](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
        for (int i = 0; i < 32; ++i) (*reply.mutable_notes())[absl::StrCat("k", i)] = "v";
        reply.GetReflection()->MutableUnknownFields(&reply)->AddLengthDelimited(99, "unknown");
        reply.set_total(++runs_);
        context.AddInitialMetadata("initial", "1");
        context.AddInitialMetadata("initial", "2");
        context.AddTrailingMetadata("trailing-bin", std::string("\0\xff\n", 3));
        return grpc::Status::OK;
      });
  const ProbeClient client(server.address());
  for (int i = 0; i < 10; ++i) {
    const std::string key = absl::StrCat("bytes-", i);
    const Outcome first = client.Act(key);
    ASSERT_TRUE(first.status.ok()) << first.status.error_message();
    Outcome retry = client.Act(key);
    EXPECT_EQ(retry.Trailer("idempotency-replayed"), "true");
    EXPECT_EQ(retry.body, first.body);
    EXPECT_EQ(retry.initial_metadata, first.initial_metadata);
    // Apart from its own mark, a replay is equal to the first caller's reply.
    retry.trailing_metadata.erase("idempotency-replayed");
    EXPECT_EQ(retry.trailing_metadata, first.trailing_metadata);
  }
}

TEST_P(GuardConditions, AMessageThatIsNoUtf8IsRecordedAndReplayed) {
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
    ++runs_;
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such caf\xe9");
  });
  const ProbeClient client(server.address());
  EXPECT_EQ(client.Act("latin-1").status.error_code(), grpc::StatusCode::NOT_FOUND);
  const Outcome retry = client.Act("latin-1");
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(retry.status.error_message(), "no such caf?");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardConditions, AnEmptyMessageIsReplayedAsOne) {
  ProbeServer& server = Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
    ++runs_;
    return grpc::Status::OK;
  });
  const ProbeClient client(server.address());
  EXPECT_TRUE(client.Act("empty").status.ok());
  const Outcome retry = client.Act("empty");
  EXPECT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_EQ(retry.body, "");
  EXPECT_EQ(runs_, 1);
}

// When the reply cannot be recorded.

TEST_P(GuardConditions, AReplyThatIsNotRecordedIsNotASuccess) {
  ProbeServer& server = Serve(Counting(), [](ProbeServer::Options& options) {
    options.guard.recording_timeout = absl::Milliseconds(300);
  });
  const ProbeClient client(server.address());
  gate_->FailCompletes(MakeError(Reason::kStoreUnavailable, "as the test requests"));
  const Outcome unrecorded = client.Act("unrecorded");
  EXPECT_EQ(unrecorded.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(unrecorded.reason(), Reason::kOutcomeNotRecorded);
  // The guard continues: once the store is available again, the retry gets the reply.
  gate_->FailCompletes(absl::OkStatus());
  const Outcome retry = client.SendUntilSettled(With("unrecorded"), kLong);
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.reply().total(), 1);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardConditions, AnAttemptThatLostItsReservationIsNotASuccess) {
  ProbeServer& server = Serve(Counting());
  const ProbeClient client(server.address());
  gate_->FailCompletes(MakeError(Reason::kReservationLost, "as the test requests"));
  const Outcome lost = client.Act("lost");
  EXPECT_EQ(lost.status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(lost.reason(), Reason::kReservationLost);
  EXPECT_EQ(runs_, 1);
}

// Early initial metadata and unusual keys.

TEST_P(GuardConditions, KeysThatNoGuardTakesAreRefused) {
  ProbeServer& server = Serve(Counting());
  const ProbeClient client(server.address());
  const std::vector<std::vector<std::string>> bad = {
      {""},       {std::string(256, 'k')},    {"with space"}, {"bare\"quote"}, {"bare,comma"},
      {"\"open"}, {"first-key", "second-key"}};
  for (const auto& keys : bad) {
    Call call;
    call.keys = keys;
    const Outcome outcome = client.Send(call);
    EXPECT_EQ(outcome.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << keys[0];
    EXPECT_EQ(outcome.reason(), Reason::kKeyInvalid) << keys[0];
    EXPECT_THAT(outcome.initial_metadata, ::testing::IsEmpty());
    if (!keys[0].empty()) {
      EXPECT_THAT(outcome.status.error_message(), ::testing::Not(::testing::HasSubstr(keys[0])));
    }
  }
  EXPECT_EQ(runs_, 0);
  // The same key without quotes, quoted and twice is one key.
  Call quoted;
  quoted.keys = {"\"same\"", "same"};
  EXPECT_TRUE(client.Send(quoted).status.ok());
  EXPECT_TRUE(client.Act("same").replayed());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardConditions, ScopesDoNotSeeEachOther) {
  ProbeServer& server = Serve(Counting(), [](ProbeServer::Options& options) {
    options.guard.scope = MetadataScope("x-tenant");
  });
  const ProbeClient client(server.address());
  Call a = With("shared");
  a.metadata = {{"x-tenant", "a"}};
  Call b = With("shared");
  b.metadata = {{"x-tenant", "b"}};
  EXPECT_EQ(client.Send(a).reply().total(), 1);
  EXPECT_EQ(client.Send(b).reply().total(), 2);
  EXPECT_EQ(client.Send(With("shared")).status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(runs_, 2);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardConditions,
                         ::testing::ValuesIn(OverEveryIdempotencyd({Api::kSync, Api::kCallback})),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

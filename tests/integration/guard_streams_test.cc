// Guarded server-streaming methods, in both APIs, held back and passed on, on a
// real server and a real idempotencyd.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "interceptors/server/testing/fake_ledger.h"
#include "tests/integration/stream_probe.h"
#include "tests/support/api_name.h"
#include "tests/support/daemon_process.h"
#include "tests/support/gate.h"
#include "tests/support/probe_server.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Eq;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using Stream = MethodPolicy::Stream;

constexpr char kWatch[] = "/idempotency.testing.Probe/Watch";

std::chrono::system_clock::time_point In(std::chrono::milliseconds time) {
  return std::chrono::system_clock::now() + time;
}

// The order of a map distinguishes stored bytes from a message serialised again.
ActReply Message(int number) {
  ActReply reply;
  reply.set_total(number);
  for (int i = 0; i < 20; ++i) (*reply.mutable_notes())[absl::StrCat(number, "-", i)] = "v";
  return reply;
}

// Counts the messages that it sees with their expected type.
class Witness final : public grpc::experimental::Interceptor {
 public:
  explicit Witness(std::atomic<int>& messages) : messages_(messages) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* batch) override {
    using grpc::experimental::InterceptionHookPoints;
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      const auto* reply = static_cast<const ActReply*>(batch->GetSendMessage());
      if (reply != nullptr && reply->notes_size() == 20) ++messages_;
    }
    batch->Proceed();
  }

 private:
  std::atomic<int>& messages_;
};

class WitnessFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit WitnessFactory(std::atomic<int>& messages) : messages_(messages) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* /*info*/) override {
    return std::make_unique<Witness>(messages_).release();
  }

 private:
  std::atomic<int>& messages_;
};

class GuardStreams : public ::testing::TestWithParam<std::tuple<Api, Stream>> {
 protected:
  static Api api() { return std::get<0>(GetParam()); }
  static bool held_back() { return std::get<1>(GetParam()) == Stream::kHoldBack; }

  void Serve(StreamHandler handler,
             const std::function<void(ProbeServer::Options&)>& change = nullptr) {
    server_ = nullptr;
    probe_ = StreamProbe::Make(api(), std::move(handler));
    ProbeServer::Options options;
    options.idempotencyd = daemon_.address();
    options.gate = gate_;
    options.handler = nullptr;
    options.protect = [this](ServerGuard& guard, grpc::ServerBuilder& builder) {
      return guard.Protect<Probe>(builder, probe_->service());
    };
    MethodPolicy policy;
    policy.stream = std::get<1>(GetParam());
    options.guard.methods[kWatch].policy = policy;
    if (change) change(options);
    server_ = std::make_unique<ProbeServer>(std::move(options));
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetMaxReceiveMessageSize(64 * 1024 * 1024);
    channel_ = grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                         arguments);
  }

  // Sends `messages` and answers `status`.
  StreamHandler Sending(int messages, grpc::Status status = grpc::Status::OK) {
    return
        [this, messages, status = std::move(status)](const ActRequest&, ProbeStreamWriter& writer) {
          ++runs_;
          writer.context().AddInitialMetadata("x-initial", "first");
          writer.context().AddTrailingMetadata("x-trailing", "last");
          for (int i = 0; i < messages; ++i) {
            if (!writer.Write(Message(i))) ++failed_writes_;
          }
          return status;
        };
  }

  // The same, and commits both in the ledger.
  StreamHandler Committing(int messages, grpc::Status status) {
    return
        [this, messages, status = std::move(status)](const ActRequest&, ProbeStreamWriter& writer) {
          ++runs_;
          RecordedReply reply(status);
          for (int i = 0; i < messages; ++i) {
            const ActReply message = Message(i);
            reply.AddStreamMessage(message);
            writer.Write(message);
          }
          FakeTransaction transaction{*ledger_, {}};
          const absl::Status committed =
              Execution::FromContext(&writer.context())->Commit(transaction, reply);
          return committed.ok() ? status : ToGrpcStatus(committed);
        };
  }

  StreamCall::End Watch(const std::string& key) { return StreamCall(channel_, key).Finish(); }
  // Again and again while the answer is retryable.
  StreamCall::End WatchUntilSettled(const std::string& key) {
    const auto deadline = In(std::chrono::seconds(20));
    while (true) {
      StreamCall::End end = Watch(key);
      const bool retryable = end.reason() == Reason::kInFlight ||
                             end.status.error_code() == grpc::StatusCode::UNAVAILABLE;
      if (!retryable || std::chrono::system_clock::now() > deadline) return end;
      // A client's backoff, not a wait for a condition.
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  static void ExpectReplayOf(const StreamCall::End& first, const StreamCall::End& replay) {
    EXPECT_TRUE(replay.replayed());
    EXPECT_EQ(replay.messages, first.messages);
    EXPECT_EQ(replay.status.error_code(), first.status.error_code());
    EXPECT_EQ(replay.status.error_message(), first.status.error_message());
    EXPECT_EQ(replay.status.error_details(), first.status.error_details());
    EXPECT_EQ(replay.Trailer("x-trailing"), first.Trailer("x-trailing"));
    EXPECT_EQ(replay.initial_metadata.count("x-initial"),
              first.initial_metadata.count("x-initial"));
  }

  std::atomic<int> runs_{0};
  std::atomic<int> failed_writes_{0};
  // Messages that must outlive their handler.
  const ActReply last_ = Message(99);
  const std::shared_ptr<FakeLedger> ledger_ = std::make_shared<FakeLedger>();
  std::shared_ptr<ConnectionGate> gate_ = std::make_shared<ConnectionGate>();
  TempFolder folder_;
  DaemonProcess daemon_{"sqlite:" + folder_.File("records.db")};
  std::unique_ptr<StreamProbe> probe_;
  std::unique_ptr<ProbeServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_P(GuardStreams, RetryGetsTheSameMessagesByteForByte) {
  Serve(Sending(3));
  const StreamCall::End first = Watch("a");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_THAT(first.messages, SizeIs(3));
  EXPECT_THAT(first.initial_metadata, Contains(Pair("x-initial", "first")));
  EXPECT_FALSE(first.replayed());
  EXPECT_NE(first.Trailer("idempotency-record"), "");
  for (int i = 0; i < 3; ++i) ExpectReplayOf(first, Watch("a"));
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(failed_writes_, 0);
}

TEST_P(GuardStreams, CallWithoutAKeyNeverReachesTheHandler) {
  Serve(Sending(3));
  const StreamCall::End refused = Watch("");
  EXPECT_EQ(refused.reason(), Reason::kKeyMissing);
  EXPECT_THAT(refused.messages, IsEmpty());
  EXPECT_EQ(runs_, 0);
}

TEST_P(GuardStreams, SameKeyForAnotherRequestIsRefused) {
  Serve(Sending(3));
  ASSERT_TRUE(Watch("a").status.ok());
  ActRequest other;
  other.set_amount(7);
  EXPECT_EQ(StreamCall(channel_, "a", other).Finish().reason(), Reason::kKeyReused);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, EmptyStreamIsAReplyToo) {
  Serve(Sending(0));
  const StreamCall::End first = Watch("a");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_THAT(first.messages, IsEmpty());
  ExpectReplayOf(first, Watch("a"));
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, ManyMessagesOfEverySize) {
  Serve(
      [&](const ActRequest&, ProbeStreamWriter& writer) {
        ++runs_;
        for (int i = 0; i < 500; ++i) {
          ActReply reply;  // the first one is empty
          reply.set_payload(std::string(static_cast<std::size_t>(i * 20), 'x'));
          EXPECT_TRUE(writer.Write(reply));
        }
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        options.guard.methods[kWatch].MutableReplacementPolicy().stream_limit_bytes = 4 << 20;
      });
  const StreamCall::End first = Watch("a");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_THAT(first.messages, SizeIs(500));
  ExpectReplayOf(first, Watch("a"));
}

TEST_P(GuardStreams, RecordedErrorAfterMessagesIsReplayedWithThem) {
  Serve(Sending(2, {grpc::StatusCode::NOT_FOUND, "no more", "details"}));
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(first.messages, SizeIs(2));
  ExpectReplayOf(first, Watch("a"));
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, AttemptThatIsNotRecordedRunsAgain) {
  Serve(
      [&](const ActRequest&, ProbeStreamWriter& writer) {
        writer.Write(Message(0));
        return ++runs_ == 1 ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full")
                            : grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        options.guard.methods[kWatch].MutableReplacementPolicy().released = {
            grpc::StatusCode::RESOURCE_EXHAUSTED};
      });
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  // Held back, messages of an attempt that runs again reach no caller.
  EXPECT_THAT(first.messages, SizeIs(held_back() ? 0 : 1));
  const StreamCall::End second = Watch("a");
  ASSERT_TRUE(second.status.ok());
  EXPECT_FALSE(second.replayed());
  EXPECT_THAT(second.messages, SizeIs(1));
  ExpectReplayOf(second, Watch("a"));
  EXPECT_EQ(runs_, 2);
}

TEST_P(GuardStreams, HandlerThatThrowsIsNotRecorded) {
  Serve(Sending(2));
  ActRequest request;
  request.set_account(kThrowing);
  const StreamCall::End thrown = StreamCall(channel_, "a", request).Finish();
  EXPECT_THAT(thrown.status.error_code(),
              AnyOf(grpc::StatusCode::UNKNOWN, grpc::StatusCode::UNIMPLEMENTED));
  const StreamCall::End again = StreamCall(channel_, "a", request).Finish();
  EXPECT_EQ(ReasonOf(FromGrpcStatus(again.status)), Reason::kInFlight) << "it pauses";
}

TEST_P(GuardStreams, OverTheLimitHeldBackIsRefusedAndPassedOnIsNotKept) {
  Serve(Sending(3), [](ProbeServer::Options& options) {
    options.guard.methods[kWatch].MutableReplacementPolicy().stream_limit_bytes =
        2 * Message(0).ByteSizeLong();
  });
  const StreamCall::End first = Watch("a");
  if (held_back()) {
    EXPECT_EQ(first.reason(), Reason::kReplyNotKept);
    EXPECT_THAT(first.messages, IsEmpty());
  } else {
    EXPECT_TRUE(first.status.ok()) << first.status.error_message();
    EXPECT_THAT(first.messages, SizeIs(3));
  }
  const StreamCall::End retry = Watch("a");
  EXPECT_EQ(retry.reason(), Reason::kReplyNotKept);
  EXPECT_THAT(retry.messages, IsEmpty());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, OverTheLimitAnErrorKeepsItsCodeAndMessage) {
  Serve(Sending(3, {grpc::StatusCode::NOT_FOUND, "no more"}), [](ProbeServer::Options& options) {
    options.guard.methods[kWatch].MutableReplacementPolicy().stream_limit_bytes = 1;
  });
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.status.error_message(), "no more");
  EXPECT_EQ(first.Trailer("idempotency-content"), held_back() ? "status-only" : "");
  EXPECT_THAT(first.messages, SizeIs(held_back() ? 0 : 3));
  const StreamCall::End retry = Watch("a");
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(retry.status.error_message(), "no more");
  EXPECT_EQ(retry.Trailer("idempotency-content"), "status-only");
  EXPECT_THAT(retry.messages, IsEmpty());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, OverTheLimitTheMessageThatGoesWithTheStatusIsHeldBackToo) {
  Serve(
      [&](const ActRequest&, ProbeStreamWriter& writer) {
        writer.WriteAndFinish(last_);
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "no more");
      },
      [](ProbeServer::Options& options) {
        options.guard.methods[kWatch].MutableReplacementPolicy().stream_limit_bytes = 1;
      });
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.status.error_message(), "no more");
  EXPECT_THAT(first.messages, SizeIs(held_back() ? 0 : 1));
}

TEST_P(GuardStreams, StatusOnlyKeepsNoMessage) {
  Serve(Sending(2), [](ProbeServer::Options& options) {
    options.guard.methods[kWatch].MutableReplacementPolicy().reply =
        MethodPolicy::Reply::kStatusOnly;
  });
  const StreamCall::End first = Watch("a");
  ASSERT_TRUE(first.status.ok());
  EXPECT_THAT(first.messages, SizeIs(2));
  EXPECT_EQ(Watch("a").reason(), Reason::kReplyNotKept);
}

TEST_P(GuardStreams, CommittedStreamIsSentAlsoIfOnlyItsStatusIsKept) {
  Serve(Committing(2, grpc::Status::OK), [this](ProbeServer::Options& options) {
    options.guard.ledger = ledger_;
    options.guard.methods[kWatch].MutableReplacementPolicy().reply =
        MethodPolicy::Reply::kStatusOnly;
  });
  const StreamCall::End first = Watch("a");
  EXPECT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_THAT(first.messages, SizeIs(2));
  EXPECT_EQ(WatchUntilSettled("a").reason(), Reason::kReplyNotKept);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, CommittedErrorIsSentAlsoIfOnlyItsStatusIsKept) {
  Serve(Committing(2, {grpc::StatusCode::NOT_FOUND, "no more"}),
        [this](ProbeServer::Options& options) {
          options.guard.ledger = ledger_;
          options.guard.methods[kWatch].MutableReplacementPolicy().reply =
              MethodPolicy::Reply::kStatusOnly;
        });
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.status.error_message(), "no more");
  EXPECT_THAT(first.messages, SizeIs(2));
  const StreamCall::End retry = WatchUntilSettled("a");
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(retry.status.error_message(), "no more");
  EXPECT_EQ(retry.Trailer("idempotency-content"), "status-only");
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, CommittedStreamOverTheLimitIsAsWithoutALedger) {
  Serve(Committing(3, grpc::Status::OK), [this](ProbeServer::Options& options) {
    options.guard.ledger = ledger_;
    options.guard.methods[kWatch].MutableReplacementPolicy().stream_limit_bytes =
        2 * Message(0).ByteSizeLong();
  });
  const StreamCall::End first = Watch("a");
  if (held_back()) {
    EXPECT_EQ(first.reason(), Reason::kReplyNotKept);
  } else {
    EXPECT_TRUE(first.status.ok()) << first.status.error_message();
    EXPECT_THAT(first.messages, SizeIs(3));
  }
  EXPECT_EQ(WatchUntilSettled("a").reason(), Reason::kReplyNotKept);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, CommittedErrorOverTheLimitIsAsWithoutALedger) {
  Serve(Committing(3, {grpc::StatusCode::NOT_FOUND, "no more"}),
        [this](ProbeServer::Options& options) {
          options.guard.ledger = ledger_;
          options.guard.methods[kWatch].MutableReplacementPolicy().stream_limit_bytes = 1;
        });
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(first.status.error_message(), "no more");
  EXPECT_THAT(first.messages, SizeIs(held_back() ? 0 : 3));
  const StreamCall::End retry = WatchUntilSettled("a");
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(retry.status.error_message(), "no more");
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, RedactedFieldIsLeftOutOfEveryMessage) {
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ActReply reply = Message(0);
    reply.set_secret("4111");
    writer.Write(reply);
    writer.Write(reply);
    return grpc::Status::OK;
  });
  for (const std::string& message : Watch("a").messages) {
    EXPECT_NE(message.find("4111"), std::string::npos);
  }
  const StreamCall::End replay = Watch("a");
  EXPECT_EQ(replay.Trailer("idempotency-content"), "redacted");
  ASSERT_THAT(replay.messages, SizeIs(2));
  for (const std::string& message : replay.messages) {
    EXPECT_EQ(message.find("4111"), std::string::npos);
  }
}

TEST_P(GuardStreams, MessagesAreSentWhenTheirPolicyAllows) {
  Gate gate;
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    writer.Write(Message(0));
    gate.Enter();
    writer.Write(Message(1));
    return grpc::Status::OK;
  });
  gate_->HoldCompletes();
  StreamCall call(channel_, "a");
  ASSERT_TRUE(gate.AwaitInside(1));
  if (held_back()) {
    EXPECT_FALSE(call.ReadsBy(In(std::chrono::milliseconds(100))));
  } else {
    EXPECT_TRUE(call.Read().has_value());
  }
  gate.Open();
  // The handler is done, its reply is not recorded yet.
  ASSERT_TRUE(gate_->AwaitHeld(1));
  if (!held_back()) {
    EXPECT_TRUE(call.Read().has_value());
  }
  EXPECT_FALSE(call.ReadsBy(In(std::chrono::milliseconds(100))));
  gate_->OpenAll();
  const StreamCall::End end = call.Finish();
  EXPECT_TRUE(end.status.ok()) << end.status.error_message();
  EXPECT_THAT(end.messages, SizeIs(2));
}

TEST_P(GuardStreams, ReplyThatCannotBeRecordedIsNotAnsweredAsOne) {
  Serve(Sending(2), [](ProbeServer::Options& options) {
    options.guard.recording_timeout = absl::Milliseconds(200);
  });
  gate_->HoldCompletes();
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.reason(), Reason::kOutcomeNotRecorded);
  EXPECT_THAT(first.messages, SizeIs(held_back() ? 0 : 2));
  gate_->OpenAll();
  const StreamCall::End retry = WatchUntilSettled("a");
  EXPECT_TRUE(retry.status.ok());
  EXPECT_TRUE(retry.replayed());
  EXPECT_THAT(retry.messages, SizeIs(2));
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, ClientThatLeavesMidwayGetsTheWholeStreamLater) {
  Gate gate;
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ++runs_;
    if (!writer.Write(Message(0))) ++failed_writes_;
    gate.Enter();
    for (int i = 1; i < 20; ++i) {
      // As most handlers do.
      if (!writer.Write(Message(i))) {
        ++failed_writes_;
        break;
      }
    }
    return grpc::Status::OK;
  });
  {
    StreamCall call(channel_, "a");
    ASSERT_TRUE(gate.AwaitInside(1));
    if (!held_back()) {
      EXPECT_TRUE(call.Read().has_value());
    }
    call.Cancel();
    EXPECT_EQ(call.Finish().status.error_code(), grpc::StatusCode::CANCELLED);
  }
  gate.Open();
  const StreamCall::End retry = WatchUntilSettled("a");
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_TRUE(retry.replayed());
  EXPECT_THAT(retry.messages, SizeIs(20));
  EXPECT_EQ(failed_writes_, 0);
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, DeadlineThatPassesMidwayLeavesAReplyToReplay) {
  Gate gate;
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ++runs_;
    writer.Write(Message(0));
    gate.Enter();
    writer.Write(Message(1));
    return grpc::Status::OK;
  });
  const StreamCall::End late =
      StreamCall(channel_, "a", {}, std::chrono::milliseconds(300)).Finish();
  EXPECT_EQ(late.status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  gate.Open();
  const StreamCall::End retry = WatchUntilSettled("a");
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_THAT(retry.messages, SizeIs(2));
  EXPECT_EQ(runs_, gate.inside());
}

// A handler that learns from its writes that its client has cancelled can end, once its stream is
// over the limit and is no longer captured.
TEST_P(GuardStreams, EndlessStreamOfALostClientEnds) {
  if (held_back()) GTEST_SKIP() << "nothing of an endless stream would ever arrive";
  Serve(
      [&](const ActRequest&, ProbeStreamWriter& writer) {
        ++runs_;
        for (int i = 0; writer.Write(Message(i)); ++i) {
        }
        return grpc::Status(grpc::StatusCode::CANCELLED, "the client has left");
      },
      [](ProbeServer::Options& options) {
        options.guard.methods[kWatch].MutableReplacementPolicy().stream_limit_bytes =
            10 * Message(0).ByteSizeLong();
      });
  StreamCall call(channel_, "a");
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(call.Read().has_value());
  call.Cancel();
  call.Finish();
  server_->Stop(In(std::chrono::seconds(20)));  // hangs if the handler does not end
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, OneOfConcurrentDuplicatesRuns) {
  Gate gate;
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ++runs_;
    writer.Write(Message(0));
    gate.Enter();
    return grpc::Status::OK;
  });
  constexpr int kCallers = 6;
  Mutex mutex;
  std::vector<StreamCall::End> ends;
  std::vector<std::thread> callers;
  for (int i = 0; i < kCallers; ++i) {
    callers.emplace_back([&] {
      StreamCall::End end = Watch("a");
      MutexLock lock(mutex);
      ends.push_back(std::move(end));
      // All but the one that runs have been refused.
      if (ends.size() == kCallers - 1) gate.Open();
    });
  }
  for (std::thread& caller : callers) caller.join();
  int refused = 0;
  for (const StreamCall::End& end : ends) refused += end.reason() == Reason::kInFlight ? 1 : 0;
  EXPECT_EQ(refused, kCallers - 1);
  EXPECT_EQ(runs_, 1);
  EXPECT_THAT(Watch("a").messages, SizeIs(1));
}

TEST_P(GuardStreams, InitialMetadataMayGoAheadAndTheLastMessageWithTheStatus) {
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ++runs_;
    writer.context().AddInitialMetadata("x-initial", "early");
    writer.SendInitialMetadata();
    EXPECT_TRUE(writer.Write(Message(0), grpc::WriteOptions().set_buffer_hint()));
    EXPECT_TRUE(writer.Write(Message(1), grpc::WriteOptions().set_no_compression()));
    writer.WriteAndFinish(last_);
    return grpc::Status::OK;
  });
  const StreamCall::End first = Watch("a");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_THAT(first.messages, SizeIs(3));
  EXPECT_THAT(first.initial_metadata, Contains(Pair("x-initial", "early")));
  ExpectReplayOf(first, Watch("a"));
}

TEST_P(GuardStreams, OnlyMessageMayGoWithTheStatus) {
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ++runs_;
    writer.WriteAndFinish(last_);
    return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "the end");
  });
  const StreamCall::End first = Watch("a");
  EXPECT_EQ(first.status.error_message(), "the end");
  EXPECT_THAT(first.messages, SizeIs(1));
  ExpectReplayOf(first, Watch("a"));
}

TEST_P(GuardStreams, CompressedStreamsAreReplayed) {
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    writer.context().set_compression_algorithm(GRPC_COMPRESS_GZIP);
    writer.Write(Message(0));
    writer.Write(Message(1));
    return grpc::Status::OK;
  });
  const StreamCall::End first = Watch("a");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_THAT(first.messages, SizeIs(2));
  ExpectReplayOf(first, Watch("a"));
}

TEST_P(GuardStreams, OtherInterceptorsSeeEveryMessage) {
  std::atomic<int> seen{0};
  Serve(Sending(3), [&](ProbeServer::Options& options) {
    options.interceptors.push_back(std::make_unique<WitnessFactory>(seen));
  });
  const StreamCall::End first = Watch("a");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(seen, 3);
  ExpectReplayOf(first, Watch("a"));
  EXPECT_EQ(seen, 6);
}

TEST_P(GuardStreams, MessageThatCannotBeSentIsNotPassedOverInSilence) {
  Serve(
      [&](const ActRequest&, ProbeStreamWriter& writer) {
        ++runs_;
        ActReply big;
        big.set_payload(std::string(32 * 1024, 'x'));
        writer.Write(Message(0));
        writer.Write(big);
        writer.Write(Message(1));
        return grpc::Status::OK;
      },
      [](ProbeServer::Options& options) {
        options.configure = [](grpc::ServerBuilder& builder) {
          builder.SetMaxSendMessageSize(16 * 1024);
        };
      });
  for (int i = 0; i < 2; ++i) {
    // gRPC ends the call before its handler ends.
    const StreamCall::End end = WatchUntilSettled("a");
    EXPECT_EQ(end.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_LE(end.messages.size(), 1u);
  }
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardStreams, ExecutionIsAvailableToTheHandler) {
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    Execution* const execution = Execution::FromContext(&writer.context());
    if (execution == nullptr) return grpc::Status(grpc::StatusCode::INTERNAL, "unguarded");
    writer.context().AddTrailingMetadata("x-attempt", std::to_string(execution->attempt()));
    return grpc::Status::OK;
  });
  EXPECT_EQ(Watch("a").Trailer("x-attempt"), "1");
}

TEST_P(GuardStreams, DaemonThatCrashesMidwayLosesNothing) {
  Gate gate;
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ++runs_;
    writer.Write(Message(0));
    gate.Enter();
    writer.Write(Message(1));
    return grpc::Status::OK;
  });
  StreamCall call(channel_, "a");
  ASSERT_TRUE(gate.AwaitInside(1));
  daemon_.Kill();
  gate.Open();
  daemon_.Restart();
  call.Finish();  // recorded in time or not
  const StreamCall::End retry = WatchUntilSettled("a");
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_THAT(retry.messages, SizeIs(2));
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(runs_, 1);
}

// A server in a process of its own that hangs in the middle of a stream, for the test below to
// kill: this binary, run once more.
TEST(StreamServer, DISABLED_HangsMidway) {
  const std::unique_ptr<StreamProbe> probe = StreamProbe::Make(
      std::string(std::getenv("STREAM_API")) == "sync" ? Api::kSync : Api::kCallback,
      [](const ActRequest&, ProbeStreamWriter& writer) {
        writer.Write(Message(0));
        std::cout << "midway" << std::endl;
        Gate().Enter();
        return grpc::Status::OK;
      });
  ProbeServer::Options options;
  options.idempotencyd = std::getenv("STREAM_IDEMPOTENCYD");
  options.protect = [&probe](ServerGuard& guard, grpc::ServerBuilder& builder) {
    return guard.Protect<Probe>(builder, probe->service());
  };
  MethodPolicy& policy = options.guard.methods[kWatch].MutableReplacementPolicy();
  policy.lease = absl::Milliseconds(500);
  policy.stream =
      std::string(std::getenv("STREAM_MODE")) == "hold" ? Stream::kHoldBack : Stream::kPassOn;
  ProbeServer server(std::move(options));
  std::cout << "listening " << server.address() << std::endl;
  Gate().Enter();
}

TEST_P(GuardStreams, ServerThatCrashesMidwayLeavesAKeyThatRunsAgain) {
  auto process = Process::Start({"guard_streams_test", "--gtest_also_run_disabled_tests",
                                 "--gtest_filter=StreamServer.DISABLED_HangsMidway"},
                                {{"STREAM_API", api() == Api::kSync ? "sync" : "callback"},
                                 {"STREAM_MODE", held_back() ? "hold" : "pass"},
                                 {"STREAM_IDEMPOTENCYD", daemon_.address()}});
  ASSERT_TRUE(process.ok()) << process.status();
  const auto line = (*process)->WaitForLine("listening ");
  ASSERT_TRUE(line.ok()) << line.status();
  const auto dying =
      grpc::CreateChannel(line->substr(line->find(' ') + 1), grpc::InsecureChannelCredentials());
  StreamCall call(dying, "a");
  ASSERT_TRUE((*process)->WaitForLine("midway").ok());
  (*process)->Kill();
  EXPECT_EQ(call.Finish().status.error_code(), grpc::StatusCode::UNAVAILABLE);

  Serve(Sending(3));
  const StreamCall::End second = WatchUntilSettled("a");
  ASSERT_TRUE(second.status.ok()) << second.status.error_message();
  EXPECT_FALSE(second.replayed());
  EXPECT_THAT(second.messages, SizeIs(3));
  ExpectReplayOf(second, Watch("a"));
  EXPECT_EQ(runs_, 1);
}

// Calls that are made, cancelled and made again at any moment: every key has run exactly once, and
// its stream is whole.
TEST_P(GuardStreams, StormOfClientsThatLeave) {
  Serve([&](const ActRequest&, ProbeStreamWriter& writer) {
    ++runs_;
    for (int i = 0; i < 5; ++i) writer.Write(Message(i));
    return grpc::Status::OK;
  });
  constexpr int kThreads = 4;
  constexpr int kKeys = 15;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::minstd_rand random(static_cast<unsigned>(t));
      for (int k = 0; k < kKeys; ++k) {
        const std::string key = absl::StrCat(t, "-", k);
        {
          StreamCall call(channel_, key);
          for (unsigned reads = random() % 6; reads > 0 && call.Read().has_value(); --reads) {
          }
          call.Cancel();
        }
        const StreamCall::End end = WatchUntilSettled(key);
        EXPECT_TRUE(end.status.ok()) << end.status.error_message();
        EXPECT_THAT(end.messages, SizeIs(5));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(runs_, kThreads * kKeys);
}

INSTANTIATE_TEST_SUITE_P(All, GuardStreams,
                         ::testing::Combine(::testing::Values(Api::kSync, Api::kCallback),
                                            ::testing::Values(Stream::kHoldBack, Stream::kPassOn)),
                         [](const ::testing::TestParamInfo<std::tuple<Api, Stream>>& test) {
                           return std::string(std::get<0>(test.param) == Api::kSync ? "Sync"
                                                                                    : "Callback") +
                                  (std::get<1>(test.param) == Stream::kHoldBack ? "HoldBack"
                                                                                : "PassOn");
                         });

}  // namespace
}  // namespace idempotency::internal::testing

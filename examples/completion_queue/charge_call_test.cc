// A server of gRPC's completion-queue API, made idempotent by ServerGuard::Begin
// over a real idempotencyd.
#include "examples/completion_queue/charge_call.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "idempotency/v1/admin_service.grpc.pb.h"
#include "tests/support/daemon_process.h"
#include "tests/support/gate.h"
#include "tests/support/temp_folder.h"

namespace completion_queue {
namespace {

using idempotency::FromGrpcStatus;
using idempotency::Reason;
using idempotency::ReasonOf;
using idempotency::internal::testing::DaemonProcess;
using idempotency::internal::testing::Gate;
using idempotency::internal::testing::TempFolder;
using payments::v1::ChargeReply;
using payments::v1::ChargeRequest;

struct Outcome {
  grpc::Status status;
  ChargeReply reply;
  bool replayed = false;
  bool pushed_back = false;
  std::string pushback = "";

  std::optional<Reason> reason() const { return ReasonOf(FromGrpcStatus(status)); }
};

class ChargeCallTest : public testing::Test {
 protected:
  // Two threads on one queue.
  void Serve(Charge charge) {
    charge_ = std::move(charge);
    idempotency::GuardOptions options;
    options.name_space = "payments";
    guard_ = idempotency::ServerGuard::Create(
                 grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()),
                 std::move(options))
                 .value();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&service_);
    queue_ = builder.AddCompletionQueue();
    server_ = builder.BuildAndStart();
    ChargeCall::Expect({*guard_, service_, *queue_, charge_});
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] {
        while (ChargeCall::HandleNext(*queue_)) {
        }
      });
    }
    stub_ = payments::v1::Payments::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  }
  ~ChargeCallTest() override {
    if (server_ == nullptr) return;
    guard_->Close();
    server_->Shutdown();
    queue_->Shutdown();
    for (std::thread& thread : threads_) thread.join();
  }

  Outcome Send(const std::string& key, std::int64_t amount_cents = 100) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    if (!key.empty()) context.AddMetadata(std::string(idempotency::kKeyMetadata), key);
    ChargeRequest request;
    request.set_account("alice");
    request.set_amount_cents(amount_cents);
    Outcome outcome;
    outcome.status = stub_->Charge(&context, request, &outcome.reply);
    const auto& trailers = context.GetServerTrailingMetadata();
    outcome.replayed = trailers.count(std::string(idempotency::kReplayedMetadata)) > 0;
    const auto pushback = trailers.find(std::string(idempotency::kPushbackMetadata));
    outcome.pushed_back = pushback != trailers.end();
    if (outcome.pushed_back) {
      outcome.pushback.assign(pushback->second.begin(), pushback->second.end());
    }
    return outcome;
  }

  void Purge(const std::string& record_id) {
    grpc::ClientContext context;
    idempotency::v1::PurgeRequest purge;
    purge.set_record_id(record_id);
    purge.set_reason("a test");
    purge.set_force(true);
    idempotency::v1::PurgeResponse purged;
    EXPECT_TRUE(admin_->Purge(&context, purge, &purged).ok());
  }

  Charge Counting() {
    return [this](idempotency::Execution&, const ChargeRequest&, ChargeReply* reply) {
      reply->set_charge_id("ch_" + std::to_string(++runs_));
      return grpc::Status::OK;
    };
  }

  std::atomic<int> runs_{0};
  TempFolder folder_;
  DaemonProcess daemon_{"sqlite:" + folder_.File("records.db")};
  const std::unique_ptr<idempotency::v1::IdempotencyAdminService::Stub> admin_ =
      idempotency::v1::IdempotencyAdminService::NewStub(
          grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()));
  Charge charge_;
  payments::v1::Payments::AsyncService service_;
  std::unique_ptr<idempotency::ServerGuard> guard_;
  std::unique_ptr<grpc::ServerCompletionQueue> queue_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> threads_;
  std::unique_ptr<payments::v1::Payments::Stub> stub_;
};

TEST_F(ChargeCallTest, ARetryGetsTheFirstReplyAndRunsNothing) {
  Serve(Counting());
  const Outcome first = Send("order-1");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_FALSE(first.replayed);
  const Outcome again = Send("order-1");
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.reply.charge_id(), "ch_1");
  EXPECT_EQ(runs_, 1);
}

TEST_F(ChargeCallTest, RefusesAsAGuardedMethodDoes) {
  Serve(Counting());
  EXPECT_EQ(Send("").reason(), Reason::kKeyMissing);
  EXPECT_EQ(runs_, 0);
  ASSERT_TRUE(Send("order-1", 100).status.ok());
  EXPECT_EQ(Send("order-1", 101).reason(), Reason::kKeyReused);
  EXPECT_EQ(runs_, 1);
}

TEST_F(ChargeCallTest, ADuplicateOfARunningCallGetsARetryDelay) {
  Gate gate;
  Serve([&](idempotency::Execution& execution, const ChargeRequest& request, ChargeReply* reply) {
    gate.Enter();
    return Counting()(execution, request, reply);
  });
  auto first = std::async(std::launch::async, [this] { return Send("order-1"); });
  ASSERT_TRUE(gate.AwaitInside(1));
  const Outcome second = Send("order-1");
  EXPECT_EQ(second.reason(), Reason::kInFlight);
  EXPECT_TRUE(second.pushed_back);
  gate.Open();
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_EQ(runs_, 1);
}

// An administrator removes it, or the store loses it.
TEST_F(ChargeCallTest, ACallWhoseRecordIsRemovedWhileItRunsIsNotRetried) {
  std::atomic<bool> fails{false};
  Serve([&](idempotency::Execution& execution, const ChargeRequest& request, ChargeReply* reply) {
    Purge(execution.record_id());
    const grpc::Status done = Counting()(execution, request, reply);
    return fails ? grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "declined") : done;
  });
  const Outcome charged = Send("order-1");
  EXPECT_TRUE(charged.status.ok()) << charged.status.error_message();
  EXPECT_EQ(charged.reply.charge_id(), "ch_1");
  fails = true;
  const Outcome declined = Send("order-2");
  EXPECT_EQ(declined.status.error_message(), "declined");
  EXPECT_EQ(declined.pushback, "-1");
}

// Its charge is not the operation's: another outcome was recorded before the record was removed.
TEST_F(ChargeCallTest, ACallThatLostItsRecordBeforeItWasRemovedIsRefused) {
  Serve([&](idempotency::Execution& execution, const ChargeRequest& request, ChargeReply* reply) {
    grpc::ClientContext context;
    idempotency::v1::ResolveRequest resolve;
    resolve.set_record_id(execution.record_id());
    resolve.set_outcome(idempotency::v1::RESOLVE_OUTCOME_COMPLETED);
    resolve.mutable_reply();
    resolve.set_reason("a test");
    resolve.set_expected_attempt(1);
    resolve.set_force(true);
    idempotency::v1::ResolveResponse resolved;
    const grpc::Status settled = admin_->Resolve(&context, resolve, &resolved);
    EXPECT_TRUE(settled.ok()) << settled.error_message();
    EXPECT_EQ(ReasonOf(execution.Checkpoint("half")), Reason::kReservationLost);
    Purge(execution.record_id());
    return Counting()(execution, request, reply);
  });
  const Outcome charged = Send("order-1");
  EXPECT_EQ(charged.reason(), Reason::kReservationLost) << charged.status.error_message();
  EXPECT_EQ(charged.pushback, "-1") << "a retry would charge again";
  EXPECT_EQ(runs_, 1);
}

TEST_F(ChargeCallTest, AFailureIsRecordedOrLeftUnknownByThePolicy) {
  std::atomic<bool> declined{true};
  Serve([&](idempotency::Execution&, const ChargeRequest& request, ChargeReply*) {
    ++runs_;
    if (request.amount_cents() > 1000) {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "declined");
    }
    return declined ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the bank is away")
                    : grpc::Status::OK;
  });
  EXPECT_EQ(Send("dear", 2000).status.error_message(), "declined");
  EXPECT_TRUE(Send("dear", 2000).replayed);
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(Send("cheap").status.error_message(), "the bank is away");
  declined = false;
  const Outcome unknown = Send("cheap");
  EXPECT_EQ(unknown.reason(), Reason::kOutcomeUnknown) << "it may have been charged";
  EXPECT_NE(unknown.status.error_message().find("UNAVAILABLE"), std::string::npos);
  EXPECT_EQ(runs_, 2);
}

TEST_F(ChargeCallTest, ManyCallsWaitOnTwoThreads) {
  Serve(Counting());
  std::vector<std::future<Outcome>> calls;
  for (int i = 0; i < 64; ++i) {
    calls.push_back(std::async(std::launch::async,
                               [this, i] { return Send("order-" + std::to_string(i % 16)); }));
  }
  for (auto& call : calls) {
    const Outcome outcome = call.get();
    EXPECT_TRUE(outcome.status.ok() || outcome.reason() == Reason::kInFlight)
        << outcome.status.error_message();
  }
  EXPECT_EQ(runs_, 16);
}

}  // namespace
}  // namespace completion_queue

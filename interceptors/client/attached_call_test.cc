#include "interceptors/client/attached_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/testing/till_server.h"
#include "core/application_log.h"
#include "grpc_idempotency/client/pinned_key.h"
#include "grpc_idempotency/client_interceptor/retry_policy.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/uuid.h"
#include "interceptors/client/retention_watch.h"
#include "interceptors/client/testing/keyed_till.h"
#include "tests/support/context_peers.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testdata::TillServer;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr char kParentsKey[] = "the-customers-own-key";
constexpr char kCharge[] = "/idempotency.testdata.Till/Charge";

std::shared_ptr<ParentOperation> MakeParent() {
  return ParentOperation::Make({"shop",
                                {"shop", "tenant-42", "/shop.v1.Orders/Place", kParentsKey},
                                *Uuid::Parse("01890a5d-ac96-774b-bcce-b302099a8057"),
                                absl::FromUnixSeconds(1688000000),
                                absl::FromUnixSeconds(1688086400)});
}

// The metadata of one call, before and after the interceptor.
class ResolveAttachedCallTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<ParentOperation>> Resolve(bool needs_key = true) {
    metadata_ = grpc::testing::ClientContextTestPeer(&context_).GetSendInitialMetadata();
    return ResolveAttachedCall(kCharge, needs_key, metadata_);
  }
  void ExpectRefused(const std::string& why) {
    const absl::Status status = Resolve().status();
    EXPECT_EQ(ReasonOf(status), Reason::kDownstreamRefused) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  std::vector<std::string> Values(std::string_view name) const {
    std::vector<std::string> values;
    for (const auto& [key, value] : metadata_) {
      if (key == name) values.push_back(value);
    }
    return values;
  }

  std::shared_ptr<ParentOperation> parent_ = MakeParent();
  grpc::ClientContext context_;
  CallMetadata metadata_;
};

TEST_F(ResolveAttachedCallTest, AnUnattachedCallStaysUnchanged) {
  context_.AddMetadata("idempotency-key", kParentsKey);
  context_.AddMetadata("x", "y");
  EXPECT_EQ(Resolve().value(), nullptr);
  EXPECT_EQ(metadata_.size(), 2u);
}

TEST_F(ResolveAttachedCallTest, WithALabelTheKeyIsTheLabels) {
  ASSERT_TRUE(parent_->Attach(context_, "item-3").ok());
  EXPECT_EQ(Resolve().value(), parent_);
  EXPECT_THAT(Values(kKeyMetadata), ElementsAre(parent_->KeyFor("item-3").value()));
  EXPECT_THAT(Values(kParentMetadata), ElementsAre(parent_->announcement()));
  EXPECT_THAT(Values(kAttachedMetadata), IsEmpty());
}

TEST_F(ResolveAttachedCallTest, WithoutALabelTheKeyIsTheMethods) {
  ASSERT_TRUE(parent_->Attach(context_).ok());
  EXPECT_EQ(Resolve().value(), parent_);
  EXPECT_THAT(Values(kKeyMetadata), ElementsAre(MakeParent()->KeyOfOnlyCall(kCharge).value()));
  EXPECT_THAT(Values(kParentMetadata), ElementsAre(parent_->announcement()));
  EXPECT_THAT(Values(kAttachedMetadata), IsEmpty());
  // The next one to the same method.
  ExpectRefused("has no label");
}

TEST_F(ResolveAttachedCallTest, ARepeatedCallKeepsItsLabelAndItsKey) {
  ASSERT_TRUE(parent_->Attach(context_, "item-3").ok());
  ASSERT_TRUE(Resolve().ok());
  const auto first = Values(kKeyMetadata);
  ASSERT_TRUE(Resolve().ok());
  EXPECT_EQ(Values(kKeyMetadata), first);
}

TEST_F(ResolveAttachedCallTest, AReadNeedsNoKeyAndMayBeRepeated) {
  ASSERT_TRUE(parent_->Attach(context_).ok());
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Resolve(/*needs_key=*/false).ok());
    EXPECT_THAT(metadata_, IsEmpty());
  }
}

TEST_F(ResolveAttachedCallTest, AReadWithALabelKeepsItsKey) {
  ASSERT_TRUE(parent_->Attach(context_, "a").ok());
  EXPECT_TRUE(Resolve(/*needs_key=*/false).ok());
  EXPECT_THAT(Values(kKeyMetadata), ElementsAre(parent_->KeyFor("a").value()));
}

TEST_F(ResolveAttachedCallTest, TheParentsOwnKeyIsNotSentOn) {
  ASSERT_TRUE(parent_->Attach(context_).ok());
  ASSERT_TRUE(WithKey(context_, kParentsKey).ok());
  ExpectRefused("the key of the handler's own call");
}

TEST_F(ResolveAttachedCallTest, NorIsItBesideALabel) {
  ASSERT_TRUE(WithKey(context_, "\"the-customers-own-key\"").ok());
  ASSERT_TRUE(parent_->Attach(context_, "item-3").ok());
  ExpectRefused("the key of the handler's own call");
}

TEST_F(ResolveAttachedCallTest, AnotherKeyIsOneTooMany) {
  ASSERT_TRUE(parent_->Attach(context_, "item-3").ok());
  ASSERT_TRUE(WithKey(context_, "mine").ok());
  ExpectRefused("a key besides");
}

// So that DownstreamKey("item-3") can be passed to CallWithRetries.
TEST_F(ResolveAttachedCallTest, TheSameKeyPinnedIsThatKey) {
  ASSERT_TRUE(WithKey(context_, parent_->KeyFor("item-3").value()).ok());
  ASSERT_TRUE(parent_->Attach(context_, "item-3").ok());
  ASSERT_TRUE(Resolve().ok());
  EXPECT_THAT(Values(kKeyMetadata), SizeIs(1));
}

TEST_F(ResolveAttachedCallTest, ACallHasOneParent) {
  ASSERT_TRUE(parent_->Attach(context_, "a").ok());
  ASSERT_TRUE(MakeParent()->Attach(context_, "a").ok());
  ExpectRefused("attached twice");
}

TEST_F(ResolveAttachedCallTest, AParentCopiedFromTheIncomingCallIsReplaced) {
  context_.AddMetadata(std::string(kParentMetadata), "the grandparent");
  ASSERT_TRUE(parent_->Attach(context_, "a").ok());
  ASSERT_TRUE(Resolve().ok());
  EXPECT_THAT(Values(kParentMetadata), ElementsAre(parent_->announcement()));
}

TEST_F(ResolveAttachedCallTest, AFailedAttachmentSendsNothing) {
  EXPECT_FALSE(parent_->Attach(context_, "").ok());
  ExpectRefused("Attach failed");
}

TEST_F(ResolveAttachedCallTest, AnExecutionThatHasEndedMakesNoCalls) {
  ASSERT_TRUE(parent_->Attach(context_).ok());
  parent_.reset();
  ExpectRefused("has ended");
}

TEST(RetentionWatchTest, WarnsOnceWhereAStepIsForgottenFirst) {
  std::vector<std::string> lines;
  RetentionWatch watch(ApplicationLog([&](LogSeverity severity, std::string_view line) {
    EXPECT_EQ(severity, LogSeverity::kWarning);
    lines.emplace_back(line);
  }));
  const absl::Time parent = absl::FromUnixSeconds(1688086400);  // 00:53:20
  EXPECT_FALSE(watch.Look("/a", "2023-06-30T00:53:20Z", parent));
  EXPECT_FALSE(watch.Look("/a", "2023-06-30T00:53:20Z", parent + absl::Milliseconds(999)));
  EXPECT_FALSE(watch.Look("/a", "tomorrow", parent));
  EXPECT_TRUE(watch.Look("/a", "2023-06-30T00:53:18Z", parent));
  EXPECT_FALSE(watch.Look("/a", "2023-06-30T00:53:18Z", parent));
  EXPECT_TRUE(watch.Look("/b", "2023-06-30T00:53:18Z", parent));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].rfind("/a: the step's record expires 2s before", 0), 0u) << lines[0];
  EXPECT_EQ(lines[1].rfind("/b: ", 0), 0u) << lines[1];
}

// The same, through gRPC.
class AttachedCallTest : public ::testing::Test {
 protected:
  TillServer server_;
  const std::unique_ptr<Till::Stub> stub_ = Till::NewStub(
      testdata::DialKeyed(server_, RetryingChannelArguments({}, {"idempotency.testdata.Till"})));
  const std::shared_ptr<ParentOperation> parent_ = MakeParent();
  ChargeRequest request_;
  ChargeReply reply_;
};

TEST_F(AttachedCallTest, GoesOutWithItsKeyOnEveryTry) {
  server_.Script({{grpc::Status(grpc::StatusCode::UNAVAILABLE, ""), {}, false, false}});
  grpc::ClientContext context;
  ASSERT_TRUE(parent_->Attach(context).ok());
  ASSERT_TRUE(stub_->Charge(&context, request_, &reply_).ok());
  const auto arrivals = server_.arrivals();
  ASSERT_THAT(arrivals, SizeIs(2));
  const std::string key = MakeParent()->KeyOfOnlyCall(kCharge).value();
  EXPECT_THAT(arrivals[0].keys, ElementsAre(key));
  EXPECT_THAT(arrivals[1].keys, ElementsAre(key));
}

void ExpectRefused(const grpc::Status& status) {
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status)), Reason::kDownstreamRefused) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("has ended"));
}

class RefusedCallTest : public AttachedCallTest {
 protected:
  // The call of an execution that has ended; another one is still running.
  RefusedCallTest() {
    grpc::ClientContext other;
    EXPECT_TRUE(parent_->Attach(other).ok());
    EXPECT_TRUE(MakeParent()->Attach(context_, "a").ok());
  }
  ~RefusedCallTest() override { EXPECT_THAT(server_.arrivals(), IsEmpty()); }

  grpc::ClientContext context_;
};

TEST_F(RefusedCallTest, Sync) { ExpectRefused(stub_->Charge(&context_, request_, &reply_)); }

TEST_F(RefusedCallTest, Callback) {
  std::promise<grpc::Status> done;
  stub_->async()->Charge(&context_, &request_, &reply_,
                         [&](const grpc::Status& status) { done.set_value(status); });
  ExpectRefused(done.get_future().get());
}

TEST_F(RefusedCallTest, Reactor) {
  struct Reactor final : grpc::ClientUnaryReactor {
    void OnDone(const grpc::Status& status) override { done.set_value(status); }
    std::promise<grpc::Status> done;
  } reactor;
  stub_->async()->Charge(&context_, &request_, &reply_, &reactor);
  reactor.StartCall();
  ExpectRefused(reactor.done.get_future().get());
}

TEST_F(RefusedCallTest, CompletionQueue) {
  grpc::CompletionQueue queue;
  const auto call = stub_->AsyncCharge(&context_, request_, &queue);
  grpc::Status status;
  call->Finish(&reply_, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  ASSERT_TRUE(queue.Next(&tag, &ok));
  ExpectRefused(status);
}

TEST_F(RefusedCallTest, ARead) { ExpectRefused(stub_->Balance(&context_, request_, &reply_)); }

TEST_F(RefusedCallTest, AStreamFromTheServer) {
  const auto reader = stub_->Watch(&context_, request_);
  EXPECT_FALSE(reader->Read(&reply_));
  ExpectRefused(reader->Finish());
}

TEST_F(RefusedCallTest, AStreamToTheServer) {
  const auto writer = stub_->ChargeMany(&context_, &reply_);
  writer->Write(request_);
  writer->WritesDone();
  ExpectRefused(writer->Finish());
}

}  // namespace
}  // namespace idempotency::internal

#include "client/downstream/parent_operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "client/downstream/parent_table.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/uuid.h"
#include "tests/support/context_peers.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kParentsKey[] = "the-customers-own-key";
constexpr char kRecord[] = "01890a5d-ac96-774b-bcce-b302099a8057";
constexpr char kCharge[] = "/payments.v1.Payments/Charge";

ParentOperation::Facts SomeFacts() {
  return {"shop",
          {"shop", "tenant-42", "/shop.v1.Orders/Place", kParentsKey},
          *Uuid::Parse(kRecord),
          absl::FromUnixSeconds(1688000000),
          absl::FromUnixSeconds(1688086400)};
}

class ParentOperationTest : public ::testing::Test {
 protected:
  std::vector<std::string> Sent(std::string_view name) {
    std::vector<std::string> values;
    for (const auto& [key, value] :
         grpc::testing::ClientContextTestPeer(&context_).GetSendInitialMetadata()) {
      if (key == name) values.push_back(value);
    }
    return values;
  }

  std::shared_ptr<ParentOperation> parent_ = ParentOperation::Make(SomeFacts());
  grpc::ClientContext context_;
};

TEST_F(ParentOperationTest, AnotherAttemptFindsTheSameKeys) {
  const auto next_attempt = ParentOperation::Make(SomeFacts());
  EXPECT_EQ(parent_->KeyFor("item-3").value(), next_attempt->KeyFor("item-3").value());
  EXPECT_EQ(parent_->KeyOfOnlyCall(kCharge).value(), next_attempt->KeyOfOnlyCall(kCharge).value());
  EXPECT_NE(parent_->KeyFor("item-3").value(), parent_->KeyFor("item-4").value());
}

TEST_F(ParentOperationTest, ALabelHasOneByteAtLeastAnd255AtMost) {
  EXPECT_EQ(ReasonOf(parent_->KeyFor("").status()), Reason::kDownstreamRefused);
  EXPECT_EQ(ReasonOf(parent_->KeyFor(std::string(256, 'x')).status()), Reason::kDownstreamRefused);
  EXPECT_TRUE(parent_->KeyFor(std::string(255, 'x')).ok());
}

TEST_F(ParentOperationTest, WithoutTheRecordsTimeThereAreNoKeys) {
  ParentOperation::Facts facts = SomeFacts();
  facts.created_at = absl::InfinitePast();
  parent_ = ParentOperation::Make(std::move(facts));
  EXPECT_EQ(ReasonOf(parent_->KeyFor("a").status()), Reason::kDownstreamRefused);
  EXPECT_EQ(ReasonOf(parent_->KeyOfOnlyCall(kCharge).status()), Reason::kDownstreamRefused);
  EXPECT_EQ(ReasonOf(parent_->Attach(context_)), Reason::kDownstreamRefused);
  EXPECT_THAT(Sent(kKeyMetadata), ElementsAre(std::string(kKeyToCome)));
  EXPECT_THAT(Sent(kAttachedMetadata), ElementsAre("failed"));
}

TEST_F(ParentOperationTest, ASecondCallWithoutALabelCannotBeDistinguishedFromTheFirst) {
  EXPECT_TRUE(parent_->KeyOfOnlyCall(kCharge).ok());
  EXPECT_TRUE(parent_->KeyOfOnlyCall("/payments.v1.Payments/Refund").ok());
  const absl::Status second = parent_->KeyOfOnlyCall(kCharge).status();
  EXPECT_EQ(ReasonOf(second), Reason::kDownstreamRefused);
  EXPECT_THAT(std::string(second.message()), HasSubstr("a second call to /payments"));
}

TEST_F(ParentOperationTest, ACallWithALabelHasItsKeyOnAnyChannel) {
  ASSERT_TRUE(parent_->Attach(context_, "item-3").ok());
  EXPECT_THAT(Sent(kKeyMetadata), ElementsAre(parent_->KeyFor("item-3").value()));
}

// The guard refuses the placeholder of the key, so that no call runs without a key where its method
// accepts keys but does not require them.
TEST_F(ParentOperationTest, ACallWithoutALabelIsRefusedOnAChannelWithoutTheInterceptor) {
  ASSERT_TRUE(parent_->Attach(context_).ok());
  ASSERT_THAT(Sent(kKeyMetadata), SizeIs(1));
  const std::string key = Sent(kKeyMetadata)[0];
  const std::string_view value = key;
  EXPECT_EQ(ReasonOf(ParseIdempotencyKey(absl::MakeConstSpan(&value, 1)).status()),
            Reason::kKeyInvalid);
}

TEST_F(ParentOperationTest, ACallWhoseAttachmentFailedIsRefused) {
  EXPECT_FALSE(parent_->Attach(context_, "").ok());
  EXPECT_THAT(Sent(kKeyMetadata), ElementsAre(std::string(kKeyToCome)));
  // Interceptors look for its mark, also of a method that needs no key, and once this has ended.
  EXPECT_FALSE(ParentTable::Instance().empty());
  parent_.reset();
  EXPECT_FALSE(ParentTable::Instance().empty());
}

TEST_F(ParentOperationTest, SendsItsRecordButNotItsKey) {
  ASSERT_TRUE(parent_->Attach(context_, "item-3").ok());
  ASSERT_THAT(Sent(kParentMetadata), SizeIs(1));
  v1::RecordKey sent;
  ASSERT_TRUE(sent.ParseFromString(Sent(kParentMetadata)[0]));
  EXPECT_EQ(sent.namespace_(), "shop");
  EXPECT_EQ(sent.scope(), "tenant-42");
  EXPECT_EQ(sent.operation(), "/shop.v1.Orders/Place");
  EXPECT_EQ(sent.key(), kRecord);
  for (const auto& [name, value] :
       grpc::testing::ClientContextTestPeer(&context_).GetSendInitialMetadata()) {
    EXPECT_THAT(value, Not(HasSubstr(kParentsKey))) << name;
  }
}

TEST_F(ParentOperationTest, RecognisesItsOwnKeyInEveryForm) {
  EXPECT_TRUE(parent_->IsOwnKey(kParentsKey));
  EXPECT_TRUE(parent_->IsOwnKey("\"the-customers-own-key\""));
  EXPECT_FALSE(parent_->IsOwnKey("the-customers-other-key"));
  EXPECT_FALSE(parent_->IsOwnKey(kKeyToCome));
  ParentOperation::Facts facts = SomeFacts();
  facts.record_key.key = kRecord;
  EXPECT_TRUE(
      ParentOperation::Make(std::move(facts))->IsOwnKey("01890A5D-AC96-774B-BCCE-B302099A8057"));
}

TEST_F(ParentOperationTest, IsFoundByItsCallsUntilItEnds) {
  const bool was_empty = ParentTable::Instance().empty();
  ASSERT_TRUE(parent_->Attach(context_).ok());
  const std::string id = Sent(kAttachedMetadata).at(0);
  EXPECT_EQ(ParentTable::Instance().Find(id), parent_);
  // If it is empty, interceptors do not look for marks.
  EXPECT_FALSE(ParentTable::Instance().empty());
  parent_.reset();
  EXPECT_EQ(ParentTable::Instance().Find(id), nullptr);
  // One of the tests before may have had an attachment that failed.
  EXPECT_EQ(ParentTable::Instance().empty(), was_empty);
}

}  // namespace
}  // namespace idempotency::internal

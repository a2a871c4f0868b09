#include "grpc_idempotency/ledger/recorded_reply.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "grpc_idempotency/ledger/ledger_commit.h"
#include "grpc_idempotency/reply.h"

namespace idempotency::internal {
namespace {

v1::MetadataEntry Message() {
  v1::MetadataEntry message;
  message.set_key("order");
  message.set_value("42");
  return message;
}

TEST(RecordedReplyTest, AMessageIsTheBodyOfAnOk) {
  const RecordedReply recorded(Message());
  EXPECT_EQ(recorded.reply().code(), 0);
  ASSERT_TRUE(recorded.reply().has_body());
  EXPECT_EQ(recorded.reply().body(), Message().SerializeAsString());
}

TEST(RecordedReplyTest, AStatusHasItsCodeMessageAndDetailsAndNoBody) {
  const RecordedReply recorded(
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no such account \xff", std::string("\0d", 2)));
  EXPECT_EQ(recorded.reply().code(), 5);
  EXPECT_EQ(recorded.reply().message(), "no such account ?");
  EXPECT_EQ(recorded.reply().details(), std::string("\0d", 2));
  EXPECT_FALSE(recorded.reply().has_body());
}

TEST(RecordedReplyTest, MetadataAboutARecordIsNotKept) {
  RecordedReply recorded(Message());
  recorded.AddInitialMetadata("idempotency-record", "of another service")
      .AddTrailingMetadata("idempotency-record", "of another service")
      .AddTrailingMetadata("idempotency-replayed", "true")
      .AddTrailingMetadata("kept", "1");
  EXPECT_EQ(recorded.reply().initial_metadata_size(), 0);
  ASSERT_EQ(recorded.reply().trailing_metadata_size(), 1);
  EXPECT_EQ(recorded.reply().trailing_metadata(0).key(), "kept");
}

TEST(RecordedReplyTest, MessagesOfAStreamAndMetadataStandInTheirOrder) {
  RecordedReply recorded(grpc::Status::OK);
  v1::MetadataEntry second = Message();
  second.set_value("43");
  recorded.AddStreamMessage(Message())
      .AddStreamMessage(second)
      .AddInitialMetadata("a", "1")
      .AddInitialMetadata("b", "2")
      .AddTrailingMetadata("c", "3");
  const v1::Reply& reply = recorded.reply();
  ASSERT_EQ(reply.stream_size(), 2);
  EXPECT_EQ(reply.stream(0), Message().SerializeAsString());
  EXPECT_EQ(reply.stream(1), second.SerializeAsString());
  ASSERT_EQ(reply.initial_metadata_size(), 2);
  EXPECT_EQ(reply.initial_metadata(0).key(), "a");
  EXPECT_EQ(reply.initial_metadata(0).value(), "1");
  EXPECT_EQ(reply.initial_metadata(1).key(), "b");
  ASSERT_EQ(reply.trailing_metadata_size(), 1);
  EXPECT_EQ(reply.trailing_metadata(0).key(), "c");
  EXPECT_EQ(reply.trailing_metadata(0).value(), "3");
}

TEST(SameOutcomeTest, EachPartThatACallerSeesCounts) {
  v1::Reply reply;
  reply.set_code(5);
  reply.set_message("no such account");
  reply.set_details("details");
  reply.set_body("body");
  reply.add_stream("one");
  reply.add_stream("two");
  EXPECT_TRUE(SameOutcome(reply, reply));
  const std::vector<std::function<void(v1::Reply&)>> changes = {
      [](v1::Reply& other) { other.set_code(6); },
      [](v1::Reply& other) { other.set_message("another"); },
      [](v1::Reply& other) { other.set_details("others"); },
      [](v1::Reply& other) { other.set_body("other"); },
      [](v1::Reply& other) { other.set_stream(1, "2"); },
      [](v1::Reply& other) { other.add_stream("three"); },
      [](v1::Reply& other) { other.mutable_stream()->RemoveLast(); },
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    v1::Reply other = reply;
    changes[i](other);
    EXPECT_FALSE(SameOutcome(reply, other)) << i;
    EXPECT_FALSE(SameOutcome(other, reply)) << i;
  }
}

TEST(SameOutcomeTest, AnEmptyBodyIsNotTheSameAsNone) {
  v1::Reply empty;
  empty.set_body("");
  EXPECT_FALSE(SameOutcome(empty, v1::Reply()));
  EXPECT_FALSE(SameOutcome(v1::Reply(), empty));
  EXPECT_TRUE(SameOutcome(empty, empty));
}

TEST(SameOutcomeTest, MetadataDoesNotCount) {
  v1::Reply other;
  other.add_initial_metadata()->set_key("a");
  other.add_trailing_metadata()->set_key("b");
  EXPECT_TRUE(SameOutcome(v1::Reply(), other));
}

TEST(SameOutcomeTest, OfAReplyThatIsOnlyAStatusCodeAndMessageCount) {
  v1::Reply committed;
  committed.set_code(5);
  committed.set_message("no such account");
  committed.set_details("details");
  committed.add_stream("one");
  v1::Reply status = WithoutContent(committed);
  EXPECT_TRUE(SameOutcome(status, committed));
  EXPECT_TRUE(SameOutcome(committed, status));
  status.set_message("another");
  EXPECT_FALSE(SameOutcome(status, committed));
  status = WithoutContent(committed);
  status.set_code(6);
  EXPECT_FALSE(SameOutcome(committed, status));
}

TEST(SameOutcomeTest, AMessageThatWasCutIsTheSame) {
  v1::Reply committed;
  committed.set_code(5);
  committed.set_message(std::string(4096, 'x'));
  EXPECT_TRUE(SameOutcome(WithoutContent(committed), committed));
}

TEST(LedgerCommitTest, OnlyAnAcknowledgedCommitIsCertain) {
  EXPECT_TRUE(LedgerCommit::Committed().known_committed());
  EXPECT_TRUE(LedgerCommit::Committed().status().ok());
  EXPECT_FALSE(LedgerCommit::Unconfirmed().known_committed());
  EXPECT_FALSE(LedgerCommit::Unconfirmed().in_doubt());
  EXPECT_FALSE(LedgerCommit::NotCommitted().in_doubt());
  EXPECT_FALSE(LedgerCommit::InDoubt().known_committed());
  EXPECT_TRUE(LedgerCommit::InDoubt().in_doubt());
  EXPECT_TRUE(LedgerCommit::Unconfirmed().status().ok());
  EXPECT_FALSE(LedgerCommit::NotCommitted().known_committed());
  EXPECT_EQ(ReasonOf(LedgerCommit::NotCommitted().status()), Reason::kStoreUnavailable);
  const LedgerCommit refused = LedgerCommit::NotCommitted(absl::AbortedError("late"));
  EXPECT_FALSE(refused.known_committed());
  EXPECT_EQ(refused.status(), absl::AbortedError("late"));
  EXPECT_FALSE(LedgerCommit::InDoubt().known_committed());
  EXPECT_EQ(ReasonOf(LedgerCommit::InDoubt().status()), Reason::kOutcomeNotRecorded);
}

}  // namespace
}  // namespace idempotency::internal

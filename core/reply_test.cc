#include "grpc_idempotency/reply.h"

#include <gtest/gtest.h>

#include "google/protobuf/util/message_differencer.h"

#include "core/reply_decoding.h"
#include "core/sha256.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

using google::protobuf::util::MessageDifferencer;

v1::Reply FullReply() {
  v1::Reply reply;
  reply.set_code(9);
  reply.set_message("the account is closed");
  reply.set_details(std::string("\x08\x09\0", 3));
  reply.set_body("body");
  v1::MetadataEntry& entry = *reply.add_trailing_metadata();
  entry.set_key("trace-bin");
  entry.set_value(std::string("\0\xFF", 2));
  reply.set_content(v1::REPLY_CONTENT_FULL);
  return reply;
}

TEST(ReplyTest, SurvivesTheRoundTrip) {
  const EncodedReply encoded = EncodeReply(FullReply());
  EXPECT_EQ(encoded, EncodeReply(FullReply()));
  EXPECT_EQ(encoded.bytes.size(), ReplyBytes(FullReply()));
  const absl::StatusOr<v1::Reply> decoded = DecodeReply(encoded);
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(MessageDifferencer::Equals(*decoded, FullReply()));
}

TEST(ReplyTest, AnEmptyBodyIsNotAnAbsentOne) {
  v1::Reply absent = FullReply();
  absent.clear_body();
  v1::Reply empty = FullReply();
  empty.set_body("");
  EXPECT_FALSE(EncodeReply(absent) == EncodeReply(empty));
  EXPECT_FALSE(DecodeReply(EncodeReply(absent))->has_body());
  EXPECT_TRUE(DecodeReply(EncodeReply(empty))->has_body());
}

TEST(ReplyTest, EveryDamagedByteIsDetected) {
  const EncodedReply good = EncodeReply(FullReply());
  for (std::size_t i = 0; i < good.bytes.size(); ++i) {
    EncodedReply damaged = good;
    damaged.bytes[i] = static_cast<char>(damaged.bytes[i] ^ 1);
    EXPECT_EQ(ReasonOf(DecodeReply(damaged).status()), Reason::kRecordDamaged);
  }
  EncodedReply cut = good;
  cut.bytes.pop_back();
  EXPECT_EQ(DecodeReply(cut).status().code(), absl::StatusCode::kDataLoss);
  EncodedReply wrong_digest = good;
  wrong_digest.digest[31] ^= 0x80;
  EXPECT_EQ(ReasonOf(DecodeReply(wrong_digest).status()), Reason::kRecordDamaged);
}

TEST(ReplyTest, DecodedIntoAMessageItReplacesWhatIsThere) {
  v1::Reply reply;
  reply.set_message("before");
  reply.set_content(v1::REPLY_CONTENT_REDACTED);
  ASSERT_TRUE(DecodeReplyInto(EncodeReply(FullReply()), reply).ok());
  EXPECT_TRUE(MessageDifferencer::Equals(reply, FullReply()));
}

TEST(ReplyTest, DecodedIntoAMessageADamagedOneLeavesNothing) {
  EncodedReply half = EncodeReply(FullReply());
  half.bytes += '\xFF';
  half.digest = Sha256(half.bytes);
  EncodedReply wrong_digest = EncodeReply(FullReply());
  wrong_digest.digest[0] ^= 1;
  for (const EncodedReply& damaged : {half, wrong_digest}) {
    v1::Reply reply = FullReply();
    EXPECT_EQ(ReasonOf(DecodeReplyInto(damaged, reply)), Reason::kRecordDamaged);
    EXPECT_TRUE(MessageDifferencer::Equals(reply, v1::Reply()));
  }
}

TEST(ReplyTest, BytesThatAreNoReplyAreDamaged) {
  EncodedReply encoded;
  encoded.bytes = "\xFF";
  encoded.digest = Sha256(encoded.bytes);
  EXPECT_EQ(ReasonOf(DecodeReply(encoded).status()), Reason::kRecordDamaged);
}

TEST(ReplyTest, WithoutContentAMessageThatIsNotUtf8ParsesAgain) {
  v1::Reply reply = FullReply();
  reply.set_message("caf\xE9");
  EXPECT_EQ(WithoutContent(reply).message(), "caf?");
  EXPECT_TRUE(DecodeReply(EncodeReply(WithoutContent(reply))).ok());
}

TEST(ReplyTest, WithoutContentKeepsTheOutcome) {
  v1::Reply reply = FullReply();
  // The limit falls inside the last character.
  reply.set_message(std::string(1023, 'm') + "\xE2\x82\xAC");
  const v1::Reply rest = WithoutContent(reply);
  EXPECT_EQ(rest.code(), 9);
  EXPECT_EQ(rest.message(), std::string(1023, 'm'));
  EXPECT_EQ(rest.content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_FALSE(rest.has_body());
  EXPECT_TRUE(rest.details().empty());
  EXPECT_EQ(rest.trailing_metadata_size(), 0);
}

TEST(ReplyTest, OnlyAFullReplyIsComplete) {
  v1::Reply reply = FullReply();
  EXPECT_TRUE(IsComplete(reply));
  EXPECT_TRUE(IsComplete(v1::Reply()));
  for (const v1::ReplyContent content :
       {v1::REPLY_CONTENT_STATUS_ONLY, v1::REPLY_CONTENT_REFERENCE, v1::REPLY_CONTENT_REDACTED}) {
    reply.set_content(content);
    EXPECT_FALSE(IsComplete(reply));
  }
  reply.set_content(static_cast<v1::ReplyContent>(99));
  EXPECT_FALSE(IsComplete(reply));
}

}  // namespace
}  // namespace idempotency::internal

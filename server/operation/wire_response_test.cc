#include "server/operation/wire_response.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/request_rules.h"
#include "core/sha256.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "server/store/reply_envelope.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;

absl::Status Written(const Verdict& verdict, ReplyLimit limit = {}) {
  v1::ReserveResponse response;
  return WriteVerdict(verdict, RecordId(), {}, limit, response);
}

EncodedReply SealedReply() {
  EncodedReply reply;
  reply.bytes = std::string(ReplyEnvelope::kMagic) + std::string(100, 's');
  reply.digest = Sha256("of the header");
  return reply;
}

void ExpectNoKeyRing(const absl::Status& status) {
  EXPECT_EQ(ReasonOf(status), Reason::kRecordDamaged) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("no key ring (--keyring)"));
}

// After a ring was taken away, or in a replica that never had it: the next attempt would take it
// for its progress.
TEST(WireResponseTest, ASealedCheckpointIsNotGivenAway) {
  Reserved reserved;
  reserved.checkpoint = std::string(kSealedCheckpointMagic) + std::string(60, 'c');
  ExpectNoKeyRing(Written(reserved));
  reserved.checkpoint = "step 1";
  EXPECT_TRUE(Written(reserved).ok());
}

// The row is whole: the message must not send an operator to purge it.
TEST(WireResponseTest, ASealedReplyIsNotCalledDamaged) {
  Replay replay;
  replay.reply = SealedReply();
  ExpectNoKeyRing(Written(replay));
  ExpectNoKeyRing(Written(replay, ReplyLimit{/*max_bytes=*/10}));
  Record record;
  record.reply = SealedReply();
  for (const v1::RecordView view : {v1::RECORD_VIEW_FULL, v1::RECORD_VIEW_UNSPECIFIED}) {
    v1::Record proto;
    ExpectNoKeyRing(WriteRecord(record, view, proto));
  }
}

}  // namespace
}  // namespace idempotency::internal

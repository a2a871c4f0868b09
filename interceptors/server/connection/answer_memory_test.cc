#include "interceptors/server/connection/answer_memory.h"

#include <gtest/gtest.h>

#include <string>

namespace idempotency::internal {
namespace {

// Not under protobuf's own count by more than a tenth, for slots of repeated fields and maps. Over
// it for texts that were not set: at most one in each entry of metadata.
void ExpectAsProtobufCounts(const v1::ReserveResponse& answer) {
  const auto counted = static_cast<double>(answer.SpaceUsedLong());
  const auto memory = static_cast<double>(MemoryOf(answer));
  EXPECT_GE(memory, counted * 0.9) << answer.ShortDebugString();
  EXPECT_LE(memory, counted * 1.5 + 512) << answer.ShortDebugString();
}

v1::ReserveResponse Answered() {
  v1::ReserveResponse answer;
  answer.set_record_id("01890a5d-ac96-774b-bcce-b302099a8057");
  return answer;
}

v1::Replay& ReplayIn(v1::ReserveResponse& answer) {
  v1::Replay& replay = *answer.mutable_replay();
  replay.mutable_completed_at()->set_seconds(1);
  replay.mutable_expires_at()->set_seconds(2);
  replay.mutable_reply()->set_body("done");
  return replay;
}

TEST(AnswerMemoryTest, EveryFieldOfAReplayCounts) {
  v1::ReserveResponse answer = Answered();
  v1::Replay& replay = ReplayIn(answer);
  ExpectAsProtobufCounts(answer);
  replay.mutable_reply()->set_body(std::string(10'000, 'b'));
  ExpectAsProtobufCounts(answer);
  replay.mutable_reply()->set_message(std::string(10'000, 'm'));
  ExpectAsProtobufCounts(answer);
  replay.mutable_reply()->set_details(std::string(10'000, 'd'));
  ExpectAsProtobufCounts(answer);
  (*replay.mutable_labels())["traceparent"] = std::string(10'000, 't');
  ExpectAsProtobufCounts(answer);
}

// As small as they can be, so that their own overhead is nearly all that they take.
TEST(AnswerMemoryTest, ManySmallElementsCount) {
  for (const std::string& text : {std::string(), std::string("k"), std::string(40, 'k')}) {
    v1::ReserveResponse answer = Answered();
    v1::Reply& reply = *ReplayIn(answer).mutable_reply();
    for (int i = 0; i < 1000; ++i) reply.add_initial_metadata()->set_key(text);
    ExpectAsProtobufCounts(answer);
    for (int i = 0; i < 1000; ++i) reply.add_trailing_metadata()->set_value(text);
    ExpectAsProtobufCounts(answer);
    for (int i = 0; i < 1000; ++i) reply.add_stream(text);
    ExpectAsProtobufCounts(answer);
    for (int i = 0; i < 1000; ++i) {
      (*answer.mutable_replay()->mutable_labels())[text + std::to_string(i)] = text;
    }
    ExpectAsProtobufCounts(answer);
  }
}

}  // namespace
}  // namespace idempotency::internal

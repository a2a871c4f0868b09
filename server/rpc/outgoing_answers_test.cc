#include "server/rpc/outgoing_answers.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

namespace idempotency::internal {
namespace {

// Each answer of a test is a frame of its own.
constexpr std::size_t kFrameBytes = 1;
const SteadyTime kNow{std::chrono::hours(1)};

class OutgoingAnswersTest : public ::testing::Test {
 protected:
  static AnswerFrames Frames(std::initializer_list<std::size_t> texts) {
    AnswerFrames frames(kFrameBytes);
    for (const std::size_t text : texts) {
      v1::SessionAnswer answer;
      answer.mutable_error()->set_message(std::string(text, 'x'));
      frames.Append(answer);
    }
    return frames;
  }
  // Returns the size of the answers, `reply` bytes of which are those of a reply.
  std::size_t Add(std::initializer_list<std::size_t> texts, std::size_t reply = 0) {
    AnswerFrames frames = Frames(texts);
    const std::size_t bytes = frames.bytes();
    GatheredAnswers::Holds holds;
    if (reply > 0) holds.replies.push_back(*budget_.TryHoldReply("one", reply));
    holds.others = budget_.HoldUnreadAnswers(bytes - reply);
    outgoing_->Add(std::move(frames), std::move(holds));
    return bytes;
  }

  Observer observer_;
  MemoryBudget budget_{10'000, observer_};
  const std::shared_ptr<HostAnswers> host_ = std::make_shared<HostAnswers>(0);
  std::unique_ptr<OutgoingAnswers> outgoing_ =
      std::make_unique<OutgoingAnswers>(kFrameBytes, host_);
};

TEST_F(OutgoingAnswersTest, OneFrameIsUnderWayAtATime) {
  EXPECT_EQ(outgoing_->BeginWrite(kNow), nullptr);
  const std::size_t first = Add({10});
  const std::size_t second = Add({20});
  const grpc::ByteBuffer* const frame = outgoing_->BeginWrite(kNow);
  ASSERT_NE(frame, nullptr);
  EXPECT_EQ(frame->Length(), first);
  EXPECT_EQ(outgoing_->write()->bytes, first);
  EXPECT_EQ(outgoing_->write()->since, kNow);
  EXPECT_EQ(outgoing_->bytes(), first + second);
  EXPECT_EQ(outgoing_->BeginWrite(kNow), nullptr);
  outgoing_->WriteEnds();
  EXPECT_FALSE(outgoing_->write().has_value());
  EXPECT_EQ(outgoing_->BeginWrite(kNow)->Length(), second);
  EXPECT_FALSE(outgoing_->has_unsent());
}

TEST_F(OutgoingAnswersTest, MemoryIsReleasedWhenAllAnswersOfAThreadAreWritten) {
  const std::size_t first = Add({60, 80}, 40);
  const std::size_t second = Add({10});
  EXPECT_EQ(outgoing_->others(), first + second - 40);
  EXPECT_EQ(*host_, first + second - 40);
  outgoing_->BeginWrite(kNow);
  outgoing_->WriteEnds();
  EXPECT_EQ(budget_.held(), first + second) << "one frame of the first is left";
  outgoing_->BeginWrite(kNow);
  outgoing_->WriteEnds();
  EXPECT_EQ(budget_.held(), second);
  EXPECT_EQ(*host_, second);
  outgoing_->BeginWrite(kNow);
  outgoing_->WriteEnds();
  EXPECT_EQ(budget_.held(), 0u);
  EXPECT_EQ(outgoing_->others(), 0u);
  EXPECT_EQ(*host_, 0u);
}

// A notice in front of answers delays the release of none of them.
TEST_F(OutgoingAnswersTest, FieldsThatAreNoAnswersHoldNoMemory) {
  v1::SessionResponse notice;
  notice.set_draining(true);
  Add({10});
  outgoing_->Add(notice);
  EXPECT_EQ(outgoing_->bytes(), budget_.held() + notice.ByteSizeLong());
  outgoing_->BeginWrite(kNow);
  outgoing_->WriteEnds();
  EXPECT_EQ(budget_.held(), 0u);
  EXPECT_EQ(outgoing_->bytes(), notice.ByteSizeLong());
}

TEST_F(OutgoingAnswersTest, OfAnEndedSessionOnlyTheFrameUnderWayIsHeld) {
  Add({60, 90}, 40);
  Add({200});
  const std::size_t written = outgoing_->BeginWrite(kNow)->Length();
  outgoing_->DropUnsent();
  EXPECT_EQ(outgoing_->bytes(), written);
  EXPECT_EQ(budget_.held(), written);
  EXPECT_EQ(outgoing_->others(), written - 40);
  EXPECT_EQ(*host_, written - 40);
  EXPECT_EQ(budget_.unread_answers(), written - 40);
  outgoing_->WriteEnds();
  EXPECT_EQ(budget_.held(), 0u);
  EXPECT_EQ(*host_, 0u);
  EXPECT_EQ(outgoing_->BeginWrite(kNow), nullptr);
}

TEST_F(OutgoingAnswersTest, NothingIsHeldAfterwards) {
  Add({100}, 40);
  OutgoingAnswers without_host(kFrameBytes, nullptr);
  GatheredAnswers::Holds holds;
  holds.others = budget_.HoldUnreadAnswers(10);
  without_host.Add(Frames({10}), std::move(holds));
  outgoing_.reset();
  EXPECT_EQ(*host_, 0u);
  without_host.DropUnsent();
  EXPECT_EQ(budget_.held(), 0u);
}

}  // namespace
}  // namespace idempotency::internal

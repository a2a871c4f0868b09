#include "server/rpc/answer_frames.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace idempotency::internal {
namespace {

constexpr std::size_t kNoLimit = 1'000'000;

v1::SessionAnswer Answer(std::uint64_t id, std::size_t text = 0) {
  v1::SessionAnswer answer;
  answer.set_id(id);
  answer.mutable_error()->set_message(std::string(text, 'x'));
  return answer;
}

// The bytes of one answer in a frame.
std::size_t BytesOf(const v1::SessionAnswer& answer) {
  v1::SessionResponse frame;
  *frame.add_answers() = answer;
  return frame.ByteSizeLong();
}

// The ids of each frame; the frames are empty afterwards.
std::vector<std::vector<std::uint64_t>> Taken(AnswerFrames& frames) {
  std::vector<std::vector<std::uint64_t>> taken;
  while (!frames.empty()) {
    const std::size_t before = frames.bytes();
    const std::string bytes = frames.Pop();
    EXPECT_EQ(frames.bytes(), before - bytes.size());
    v1::SessionResponse frame;
    EXPECT_TRUE(frame.ParseFromString(bytes));
    taken.emplace_back();
    for (const v1::SessionAnswer& answer : frame.answers()) taken.back().push_back(answer.id());
  }
  EXPECT_EQ(frames.bytes(), 0u);
  return taken;
}

TEST(AnswerFramesTest, AnswersThatFitAreOneFrame) {
  AnswerFrames frames(kNoLimit);
  EXPECT_TRUE(frames.empty());
  std::size_t bytes = 0;
  // Lengths of one, two and three bytes.
  for (const std::size_t text : {0, 100, 1000, 40'000}) {
    const v1::SessionAnswer answer = Answer(text, text);
    frames.Append(answer);
    bytes += BytesOf(answer);
    EXPECT_EQ(frames.bytes(), bytes);
  }
  EXPECT_FALSE(frames.empty());
  EXPECT_EQ(Taken(frames), std::vector<std::vector<std::uint64_t>>({{0, 100, 1000, 40'000}}));
}

TEST(AnswerFramesTest, FieldsBesideTheAnswersGoWithThem) {
  AnswerFrames frames(kNoLimit);
  frames.Append(Answer(1));
  v1::SessionResponse farewell;
  farewell.set_draining(true);
  frames.Append(farewell);
  frames.Append(Answer(2));
  v1::SessionResponse frame;
  ASSERT_TRUE(frame.ParseFromString(frames.Pop()));
  EXPECT_TRUE(frame.draining());
  ASSERT_EQ(frame.answers_size(), 2);
  EXPECT_EQ(frame.answers(1).id(), 2u);
  EXPECT_TRUE(frames.empty());
}

TEST(AnswerFramesTest, AFrameIsFullAtItsLimitAndNotBefore) {
  const std::size_t each = BytesOf(Answer(1, 20));
  AnswerFrames exact(2 * each);
  AnswerFrames less(2 * each - 1);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    exact.Append(Answer(id, 20));
    less.Append(Answer(id, 20));
  }
  EXPECT_EQ(Taken(exact), std::vector<std::vector<std::uint64_t>>({{1, 2}, {3}}));
  EXPECT_EQ(Taken(less), std::vector<std::vector<std::uint64_t>>({{1}, {2}, {3}}));
}

TEST(AnswerFramesTest, AnAnswerThatIsLargerThanAFrameTravelsAlone) {
  AnswerFrames frames(100);
  frames.Append(Answer(1));
  frames.Append(Answer(2, 1000));
  frames.Append(Answer(3));
  EXPECT_EQ(Taken(frames), std::vector<std::vector<std::uint64_t>>({{1}, {2}, {3}}));
}

TEST(AnswerFramesTest, FramesBehindOthersFillTheLastOfThem) {
  const std::size_t each = BytesOf(Answer(1, 20));
  for (const std::size_t limit : {3 * each, 3 * each - 1}) {
    AnswerFrames frames(limit);
    AnswerFrames behind(limit);
    frames.Append(Answer(1, 20));
    behind.Append(Answer(2, 20));
    behind.Append(Answer(3, 20));
    frames.Append(std::move(behind));
    EXPECT_EQ(frames.bytes(), 3 * each);
    AnswerFrames last(limit);
    last.Append(Answer(4, 20));
    frames.Append(std::move(last));
    EXPECT_EQ(frames.bytes(), 4 * each);
    if (limit == 3 * each) {
      EXPECT_EQ(Taken(frames), std::vector<std::vector<std::uint64_t>>({{1, 2, 3}, {4}}));
    } else {
      EXPECT_EQ(Taken(frames), std::vector<std::vector<std::uint64_t>>({{1}, {2, 3}, {4}}));
    }
  }
}

TEST(AnswerFramesTest, WhatWasMovedIsEmpty) {
  AnswerFrames frames(kNoLimit);
  AnswerFrames behind(kNoLimit);
  behind.Append(Answer(1));
  frames.Append(std::move(behind));
  EXPECT_TRUE(behind.empty());  // NOLINT(bugprone-use-after-move): empty afterwards, as documented
  EXPECT_EQ(behind.bytes(), 0u);
  EXPECT_EQ(Taken(frames), std::vector<std::vector<std::uint64_t>>({{1}}));
}

TEST(AnswerFramesTest, NothingIsLeftOfWhatIsCleared) {
  AnswerFrames frames(kNoLimit);
  frames.Append(Answer(1));
  frames.Clear();
  EXPECT_TRUE(frames.empty());
  EXPECT_EQ(frames.bytes(), 0u);
  frames.Append(Answer(2));
  EXPECT_EQ(Taken(frames), std::vector<std::vector<std::uint64_t>>({{2}}));
}

}  // namespace
}  // namespace idempotency::internal

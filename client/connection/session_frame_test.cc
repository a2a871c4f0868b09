#include "client/connection/session_frame.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <utility>

#include "google/protobuf/util/message_differencer.h"

#include "client/connection/outstanding_operation.h"
#include "core/application_log.h"

namespace idempotency::internal {
namespace {

using google::protobuf::util::MessageDifferencer;

template <typename Response, typename Request>
std::string BodyOf(const Request& request) {
  Connection::Callback<Response> nobody = [](const auto&) {};
  const ApplicationLog log;
  return OutstandingOperation::Make(request, Connection::Deadline::max(), nobody, log)->body;
}

v1::ReserveRequest SomeReserve() {
  v1::ReserveRequest request;
  request.mutable_record_key()->set_key("k");
  request.set_request_token("mine");
  request.mutable_lease()->set_seconds(30);
  return request;
}

// The bytes that this test assembles are those that protobuf would have written.
TEST(SessionFrameTest, ParsesAsTheMessageThatWasMeant) {
  v1::SessionRequest expected;
  auto& first = *expected.add_operations();
  first.set_id(1);
  first.mutable_timeout()->set_seconds(2);
  first.mutable_timeout()->set_nanos(5'000'000);
  *first.mutable_reserve() = SomeReserve();
  auto& second = *expected.add_operations();
  second.set_id(std::numeric_limits<std::uint64_t>::max());
  second.mutable_complete()->mutable_reply()->set_body(std::string(300, 'r'));
  auto& third = *expected.add_operations();
  third.set_id(3);
  third.mutable_cancel();
  auto& fourth = *expected.add_operations();
  fourth.set_id(4);
  fourth.mutable_timeout()->set_seconds(9'000'000'000);
  fourth.mutable_timeout()->set_nanos(999'999'999);
  fourth.mutable_release();

  SessionFrame frame;
  EXPECT_TRUE(frame.empty());
  frame.Add(1, std::chrono::milliseconds(2005), BodyOf<v1::ReserveResponse>(first.reserve()));
  frame.Add(second.id(), std::nullopt, BodyOf<v1::CompleteResponse>(second.complete()));
  frame.AddCancel(3);
  frame.Add(4, std::chrono::seconds(9'000'000'000) + std::chrono::nanoseconds(999'999'999),
            BodyOf<v1::ReleaseResponse>(fourth.release()));
  v1::SessionRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(std::move(frame).Take()));
  EXPECT_TRUE(MessageDifferencer::Equals(parsed, expected)) << parsed.DebugString();
}

TEST(SessionFrameTest, WeighsNoMoreThanItWasExpectedTo) {
  const std::string body(100'000, 'b');
  SessionFrame frame;
  frame.Add(std::numeric_limits<std::uint64_t>::max(), std::chrono::nanoseconds::max(), body);
  EXPECT_LE(frame.size(), SessionFrame::Weight(body.size()));
}

}  // namespace
}  // namespace idempotency::internal

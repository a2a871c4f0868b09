#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "google/protobuf/wrappers.pb.h"

#include "core/grpc_headers.h"
#include "grpc_idempotency/server_guard/method_policy.h"
#include "interceptors/server/call/guarded_stream.h"
#include "interceptors/server/grpc_internals/call_stream_writer.h"

// A function of a sanitizer's allocator; nullptr without one.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes() __attribute__((weak));

namespace idempotency::internal {
namespace {

using google::protobuf::BytesValue;

std::size_t HeapBytes() {
  if (__sanitizer_get_current_allocated_bytes != nullptr) {
    return __sanitizer_get_current_allocated_bytes();
  }
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

grpc::ByteBuffer Serialized(const BytesValue& message) {
  grpc::ByteBuffer buffer;
  bool own = false;
  EXPECT_TRUE(grpc::SerializationTraits<BytesValue>::Serialize(message, &buffer, &own).ok());
  return buffer;
}

// A held-back stream whose handler writes messages of a size.
class HeldBackStreamTest : public testing::TestWithParam<std::size_t> {
 protected:
  static constexpr std::size_t kLimit = 1024 * 1024;

  HeldBackStreamTest() {
    MethodPolicy policy;
    policy.stream = MethodPolicy::Stream::kHoldBack;
    policy.stream_limit_bytes = kLimit;
    // Never opened: nothing uses the call.
    stream_ = std::make_unique<GuardedStream>(
        policy, grpc_internals::MakeCallbackStreamWriter(grpc::internal::Call()));
    message_.set_value(std::string(GetParam(), 'x'));
  }
  // As the interceptors do.
  void Write() {
    stream_->Capture(message_);
    if (!stream_->drops_messages()) stream_->writer().Put(Serialized(message_), nullptr);
  }

  BytesValue message_;
  std::unique_ptr<GuardedStream> stream_;
};

INSTANTIATE_TEST_SUITE_P(OfEachSize, HeldBackStreamTest,
                         testing::Values(0, 20, 100, 1'000, 100'000),
                         testing::PrintToStringParamName());

TEST_P(HeldBackStreamTest, TakesAboutTwiceItsLimit) {
  const std::size_t before = HeapBytes();
  std::size_t most = before;
  while (!stream_->over_limit()) {
    Write();
    most = std::max(most, HeapBytes());
  }
  EXPECT_LE(most - before, kLimit * 5 / 2);
  EXPECT_LE(HeapBytes(), before + kLimit / 10) << "all of them are dropped";
}

TEST_P(HeldBackStreamTest, OverTheLimitTakesNothing) {
  while (!stream_->over_limit()) Write();
  const std::size_t before = HeapBytes();
  // Also those that another part still puts in.
  for (int i = 0; i < 10'000; ++i) {
    Write();
    stream_->writer().Put(Serialized(message_), nullptr);
  }
  EXPECT_LE(HeapBytes(), before + 10'000);
}

TEST(HeldBackStreamMarkTest, IsCalledAlsoAfterMessagesWereDropped) {
  const auto writer = grpc_internals::MakeCallbackStreamWriter(grpc::internal::Call());
  int passed = 0;
  writer->Put(Serialized(BytesValue()), nullptr);
  writer->Put(Serialized(BytesValue()), [&] { ++passed; });
  writer->Discard();
  writer->Put(Serialized(BytesValue()), [&] { ++passed; });
  EXPECT_EQ(passed, 0);
  std::optional<bool> drained;
  writer->Drain([&](bool all_sent) { drained = all_sent; });
  EXPECT_EQ(passed, 2);
  EXPECT_EQ(drained, true);
}

}  // namespace
}  // namespace idempotency::internal

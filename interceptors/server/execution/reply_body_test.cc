#include "interceptors/server/execution/reply_body.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace idempotency::internal {
namespace {

// Reports a size, and has no contents.
class MessageOf final : public google::protobuf::MessageLite {
 public:
  explicit MessageOf(std::size_t bytes) : bytes_(bytes) {}

  std::string GetTypeName() const override { return "test.Message"; }
  MessageLite* New(google::protobuf::Arena*) const override { return nullptr; }
  void Clear() override {}
  bool IsInitialized() const override { return true; }
  void CheckTypeAndMergeFrom(const MessageLite&) override {}
  std::size_t ByteSizeLong() const override { return bytes_; }
  int GetCachedSize() const override { return static_cast<int>(bytes_); }
  std::uint8_t* _InternalSerialize(std::uint8_t* to,
                                   google::protobuf::io::EpsCopyOutputStream*) const override {
    return to;
  }

 private:
  const std::size_t bytes_;
};

TEST(ReplyBodyTest, AMessageThatProtobufCannotSerialiseIsNoEmptyBody) {
  v1::Reply reply;
  SetBody(MessageOf(std::size_t{1} << 31), reply);
  EXPECT_FALSE(reply.has_body());
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_STATUS_ONLY);
}

TEST(ReplyBodyTest, AnEmptyMessageIsABody) {
  v1::Reply reply;
  SetBody(MessageOf(0), reply);
  EXPECT_TRUE(reply.has_body());
  EXPECT_EQ(reply.content(), v1::REPLY_CONTENT_UNSPECIFIED);
}

}  // namespace
}  // namespace idempotency::internal

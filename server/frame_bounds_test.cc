#include "server/frame_bounds.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency {
namespace {

constexpr FrameBounds kBounds{/*max_operations=*/100, /*max_parsed_bytes=*/100'000};

// The bytes in slices of `piece` bytes, as a large message comes off the wire.
grpc::ByteBuffer BufferOf(const std::string& bytes, std::size_t piece = 1 << 20) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    slices.emplace_back(bytes.substr(at, piece));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

absl::Status Check(const std::string& bytes, const FrameBounds& bounds = kBounds) {
  grpc::ByteBuffer buffer = BufferOf(bytes);
  const absl::Status whole = CheckFrame(buffer, bounds);
  EXPECT_EQ(buffer.Length(), bytes.size()) << "the bytes are still there";
  grpc::ByteBuffer in_pieces = BufferOf(bytes, 7);
  EXPECT_EQ(CheckFrame(in_pieces, bounds), whole);
  return whole;
}

std::string Repeated(const std::string& bytes, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += bytes;
  return all;
}

void ExpectRefused(const absl::Status& status, const std::string& text) {
  EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid) << status;
  EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
}

TEST(FrameBoundsTest, CountsOperations) {
  const std::string empty_operation("\x0a\x00", 2);
  EXPECT_TRUE(Check("").ok());
  EXPECT_TRUE(Check(Repeated(empty_operation, 100)).ok());
  ExpectRefused(Check(Repeated(empty_operation, 101)), "at most 100");
  // Whatever stands between them.
  const std::string unknown = "\x78\x01";
  EXPECT_TRUE(Check(Repeated(empty_operation + unknown, 100)).ok());
  ExpectRefused(Check(Repeated(empty_operation + unknown, 101)), "at most 100");
}

// Each of them takes two bytes on the wire.
TEST(FrameBoundsTest, CountsFieldsWhereverTheyStand) {
  const int too_many = 100'000 / kFieldBytes;
  std::vector<v1::SessionRequest> frames(5);
  v1::Reply& metadata = *frames[0].add_operations()->mutable_complete()->mutable_reply();
  v1::Reply& stream = *frames[1].add_operations()->mutable_complete()->mutable_reply();
  v1::ReserveRequest& fingerprints = *frames[2].add_operations()->mutable_reserve();
  v1::ReserveRequest& labels = *frames[3].add_operations()->mutable_reserve();
  v1::SessionOperation& unknown = *frames[4].add_operations();
  auto& group = *unknown.GetReflection()->MutableUnknownFields(&unknown)->AddGroup(99);
  for (int i = 0; i < too_many; ++i) {
    metadata.add_trailing_metadata();
    stream.add_stream();
    fingerprints.add_fingerprints();
    (*labels.mutable_labels())[std::to_string(i)] = "";
    group.AddVarint(1, 1);
  }
  for (const v1::SessionRequest& frame : frames) {
    ExpectRefused(Check(frame.SerializeAsString()), "more fields");
    EXPECT_TRUE(Check(frame.SerializeAsString(), {100, 1'000'000}).ok());
  }
}

TEST(FrameBoundsTest, LongTextsAreNoFields) {
  v1::SessionRequest frame;
  frame.add_operations()->mutable_complete()->mutable_reply()->set_body(std::string(90'000, 'b'));
  EXPECT_TRUE(Check(frame.SerializeAsString()).ok());
  frame.add_operations()->mutable_complete()->mutable_reply()->set_body(std::string(9'999, 'b'));
  ExpectRefused(Check(frame.SerializeAsString()), "more fields");
}

TEST(FrameBoundsTest, WhatIsNoMessageIsRefused) {
  v1::SessionRequest frame;
  frame.add_operations()->mutable_reserve()->mutable_record_key()->set_key("key");
  const std::string good = frame.SerializeAsString();
  for (const std::string& bytes :
       {good.substr(0, good.size() - 1), good + "\x0f", good + "\x0a", good + "\x7b",
        good + std::string("\0", 1), std::string("\x0a\xff\xff\xff\xff\x0f", 6)}) {
    ExpectRefused(Check(bytes), "not a SessionRequest");
  }
  // Inside an operation it is found where every field is counted, and by the parser
  // otherwise.
  frame.add_operations()->mutable_complete()->mutable_reply()->set_body(std::string(90'000, 'b'));
  const std::string large = frame.SerializeAsString();
  EXPECT_TRUE(Check(large).ok());
  for (const std::string& operation : {std::string("\x1a\x05\x0a"), std::string("\x7b"),
                                       std::string("\x0f"), std::string("\0", 1)}) {
    std::string bytes = large;
    bytes.push_back('\x0a');
    bytes.push_back(static_cast<char>(operation.size()));
    bytes += operation;
    EXPECT_FALSE(v1::SessionRequest().ParseFromString(bytes));
    ExpectRefused(Check(bytes), "not a SessionRequest");
  }
}

// What parses is within the bounds of depth, too.
TEST(FrameBoundsTest, GroupsAreNestedAsDeepAsAParserTakes) {
  const std::string start = "\x7b";
  const std::string end = "\x7c";
  const std::string deep = Repeated(start, 10'000) + Repeated(end, 10'000);
  EXPECT_FALSE(v1::SessionRequest().ParseFromString(deep));
  ExpectRefused(Check(deep), "not a SessionRequest");
}

}  // namespace
}  // namespace idempotency

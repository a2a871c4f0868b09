#include "server/rpc/frame_bounds.h"

#include <grpcpp/support/slice.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/field_memory.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {
namespace {

constexpr FrameBounds kBounds{/*max_operations=*/100, /*max_parsed_bytes=*/100'000};

// The bytes in slices of `piece` bytes, as a large message arrives over the network.
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
  // With any other field between them.
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
  // Inside an operation the fault is found where every field is counted, and otherwise by the
  // parser.
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

// Every message that parses is within the bounds of depth, too.
TEST(FrameBoundsTest, GroupsAreNestedAsDeepAsAParserTakes) {
  const std::string start = "\x7b";
  const std::string end = "\x7c";
  const std::string deep = Repeated(start, 10'000) + Repeated(end, 10'000);
  EXPECT_FALSE(v1::SessionRequest().ParseFromString(deep));
  ExpectRefused(Check(deep), "not a SessionRequest");
  // Where every field is counted, too: at the maximum depth, and one level deeper.
  v1::SessionRequest wide;
  wide.add_operations()->mutable_complete()->mutable_reply()->set_body(std::string(90'000, 'b'));
  const std::string large = wide.SerializeAsString();
  const auto nested = [&](int depth) {
    return large + Repeated(start, depth) + Repeated(end, depth);
  };
  EXPECT_TRUE(v1::SessionRequest().ParseFromString(nested(99)));
  EXPECT_TRUE(Check(nested(99)).ok());
  ExpectRefused(Check(nested(101)), "not a SessionRequest");
  // A message is a level, too.
  const auto nested_in_an_operation = [&](int depth) {
    const std::string bytes = Repeated(start, depth) + Repeated(end, depth);
    return large + '\x0a' + static_cast<char>(0x80 | (bytes.size() & 0x7f)) +
           static_cast<char>(bytes.size() >> 7) + bytes;
  };
  EXPECT_TRUE(v1::SessionRequest().ParseFromString(nested_in_an_operation(98)));
  EXPECT_TRUE(Check(nested_in_an_operation(98)).ok());
  EXPECT_FALSE(v1::SessionRequest().ParseFromString(nested_in_an_operation(100)));
  ExpectRefused(Check(nested_in_an_operation(100)), "not a SessionRequest");
}

TEST(FrameBoundsTest, WhatAFieldIsTakenToWeighIsWhatIsDocumented) {
  EXPECT_EQ(kFieldBytes, 48u);
  EXPECT_EQ(kCountedRequestBytes, 64u * 1024);
}

// Two bytes are a field: as many as fit are accepted, one more is not.
TEST(FrameBoundsTest, FieldsAreBoundedToTheLast) {
  constexpr std::size_t kFields = 50;
  const std::string frame = Repeated("\x78\x01", kFields);
  const std::size_t bound = frame.size() + kFields * kFieldBytes;
  EXPECT_TRUE(Check(frame, {100, bound}).ok());
  ExpectRefused(Check(frame, {100, bound - 1}), "more fields");
  EXPECT_TRUE(Check(std::string(), {100, 0}).ok());
  ExpectRefused(Check(frame, {100, frame.size() - 1}), "more fields");
}

// The same for the bytes as one slice and in pieces.
template <typename Request>
absl::StatusOr<std::size_t> Parsed(const std::string& bytes, std::size_t most = 1'000'000) {
  grpc::ByteBuffer buffer = BufferOf(bytes);
  const absl::StatusOr<std::size_t> whole = ParsedBytes(buffer, *Request::descriptor(), most);
  EXPECT_EQ(buffer.Length(), bytes.size()) << "the bytes are still there";
  grpc::ByteBuffer in_pieces = BufferOf(bytes, 7);
  EXPECT_EQ(ParsedBytes(in_pieces, *Request::descriptor(), most), whole);
  return whole;
}

TEST(ParsedBytesTest, ASmallRequestIsItsBytes) {
  v1::ReserveRequest request;
  request.mutable_record_key()->set_key("key");
  const std::string bytes = request.SerializeAsString();
  EXPECT_EQ(*Parsed<v1::ReserveRequest>(bytes), bytes.size());
  EXPECT_EQ(*Parsed<v1::ReserveRequest>(""), 0u);
}

TEST(ParsedBytesTest, ALargeOneIsItsBytesAndItsFields) {
  v1::CompleteRequest request;
  request.mutable_reply()->set_body(std::string(100'000, 'b'));
  const std::string one_body = request.SerializeAsString();
  // The reply and its body.
  EXPECT_EQ(*Parsed<v1::CompleteRequest>(one_body), one_body.size() + 2 * kFieldBytes);
  for (int i = 0; i < 10'000; ++i) request.mutable_reply()->add_stream();
  const std::string many = request.SerializeAsString();
  EXPECT_EQ(*Parsed<v1::CompleteRequest>(many), many.size() + 10'002 * kFieldBytes);
}

TEST(ParsedBytesTest, FieldsOverTheBoundAreRefusedWhereverTheyStand) {
  constexpr int kMany = 500'000;
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid) << status;
    const ErrorDetails details = DetailsOf(status);
    ASSERT_EQ(details.violations.size(), 1u);
    EXPECT_EQ(details.violations[0].field, "request");
  };
  v1::ReserveRequest fingerprints;
  v1::ReserveRequest labels;
  v1::CompleteRequest metadata;
  v1::ReleaseRequest unknown;
  v1::GetRequest nested;
  auto& group = *nested.GetReflection()->MutableUnknownFields(&nested)->AddGroup(99);
  for (int i = 0; i < kMany; ++i) {
    fingerprints.add_fingerprints();
    metadata.mutable_reply()->add_trailing_metadata();
    unknown.GetReflection()->MutableUnknownFields(&unknown)->AddVarint(99, 1);
    group.AddGroup(1);
  }
  for (int i = 0; i < 10'000; ++i) (*labels.mutable_labels())[std::to_string(i)] = "";
  expect_refused(Parsed<v1::ReserveRequest>(fingerprints.SerializeAsString()).status());
  expect_refused(Parsed<v1::ReserveRequest>(labels.SerializeAsString()).status());
  expect_refused(Parsed<v1::CompleteRequest>(metadata.SerializeAsString()).status());
  expect_refused(Parsed<v1::ReleaseRequest>(unknown.SerializeAsString()).status());
  expect_refused(Parsed<v1::GetRequest>(nested.SerializeAsString()).status());
  expect_refused(Parsed<v1::GetRequest>(std::string(100, 'x'), /*most=*/99).status());
  // A small one that could take more than the bound is counted, too.
  expect_refused(Parsed<v1::GetRequest>(Repeated("\x78\x01", 100), /*most=*/4'000).status());
}

TEST(ParsedBytesTest, WhatIsNoMessageIsRefused) {
  const std::string body(100'000, 'b');
  for (const std::string& tail : {std::string("\x0f"), std::string("\x0a"), std::string("\x7b")}) {
    v1::CompleteRequest request;
    request.mutable_reply()->set_body(body);
    ExpectRefused(Parsed<v1::CompleteRequest>(request.SerializeAsString() + tail).status(),
                  "not a message of this method");
  }
  grpc::ByteBuffer nothing;
  ExpectRefused(ParsedBytes(nothing, *v1::GetRequest::descriptor(), 1000).status(),
                "not a message of this method");
}

}  // namespace
}  // namespace idempotency::internal

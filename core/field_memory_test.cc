#include "core/field_memory.h"

#include <string>

#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "gtest/gtest.h"

#include "testdata/legacy_shapes.pb.h"
#include "testdata/shapes.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::Message;
using testdata::LegacyShapes;
using testdata::Shapes;
using Look = FieldMemory::Look;

constexpr std::size_t kNoBound = 1'000'000'000;
constexpr std::size_t kEmptyBytes = 1000;

FieldMemory Measured(const std::string& bytes, const Descriptor& type,
                     std::size_t most = kNoBound) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream in(&stream);
  return MeasureFields(in, type, most, [](const Descriptor&) { return kEmptyBytes; });
}

// Whole, and over a bound that is one byte less.
std::size_t BytesOf(const std::string& bytes, const Descriptor& type) {
  const FieldMemory fields = Measured(bytes, type);
  EXPECT_EQ(fields.look, Look::kWhole);
  EXPECT_EQ(Measured(bytes, type, fields.bytes).look, Look::kWhole);
  if (fields.bytes > 0) {
    EXPECT_EQ(Measured(bytes, type, fields.bytes - 1).look, Look::kOverBound);
  }
  return fields.bytes;
}

std::size_t BytesOf(const Message& message) {
  return BytesOf(message.SerializeAsString(), *message.GetDescriptor());
}

TEST(FieldMemoryTest, AFieldIsCountedBesideItsBytes) {
  Shapes message;
  EXPECT_EQ(BytesOf(message), 0U);
  message.set_string_value(std::string(10'000, 's'));
  EXPECT_EQ(BytesOf(message), kFieldBytes);
  message.set_int64_value(7);
  EXPECT_EQ(BytesOf(message), 2 * kFieldBytes);
}

TEST(FieldMemoryTest, AMessageHasItsOwnBytesAtEveryDepth) {
  Shapes message;
  message.add_children()->add_children();
  message.mutable_choice_child();
  EXPECT_EQ(BytesOf(message), 3 * (kFieldBytes + kEmptyBytes));
}

TEST(FieldMemoryTest, AnEntryOfAMapIsAMessage) {
  Shapes message;
  (*message.mutable_names_by_sint32())[1] = "one";
  EXPECT_EQ(BytesOf(message), 3 * kFieldBytes + kEmptyBytes);
}

TEST(FieldMemoryTest, GroupsAndExtensionsAreMessages) {
  LegacyShapes message;
  message.add_item()->set_id(1);
  EXPECT_EQ(BytesOf(message), 2 * kFieldBytes + kEmptyBytes);
  message.MutableExtension(testdata::companion)->set_number(1);
  EXPECT_EQ(BytesOf(message), 4 * kFieldBytes + 2 * kEmptyBytes);
}

TEST(FieldMemoryTest, UnknownFieldsCountAsKnownOnes) {
  LegacyShapes message;
  auto& unknown = *message.GetReflection()->MutableUnknownFields(&message);
  unknown.AddVarint(90, 1);
  unknown.AddLengthDelimited(91, "bytes");
  unknown.AddGroup(92)->AddFixed32(1, 1);
  EXPECT_EQ(BytesOf(message), 4 * kFieldBytes);
}

// One byte each, and eight times as much once parsed.
TEST(FieldMemoryTest, ElementsOfAPackedFieldAreCounted) {
  Shapes message;
  for (int i = 0; i < 1000; ++i) message.add_packed_int32(1);
  EXPECT_EQ(BytesOf(message), kFieldBytes + 4 * 1000);
  Shapes fixed;
  for (int i = 0; i < 1000; ++i) fixed.add_doubles(1);
  EXPECT_EQ(BytesOf(fixed), kFieldBytes);
}

// The parser finds the rest: a message that is cut off, a text that is not UTF-8.
TEST(FieldMemoryTest, WhatIsNoMessageIsDamaged) {
  const Descriptor& type = *Shapes::descriptor();
  // A wire type that does not exist, an end without a group, a group without an end, no tag, a cut
  // string, a cut element.
  for (const std::string& bytes :
       {std::string("\x0f"), std::string("\x7c"), std::string("\x7b"), std::string(1, '\0'),
        std::string("\x72\x05"), std::string("\xb2\x01\x01\xff")}) {
    EXPECT_FALSE(Shapes().ParseFromString(bytes));
    EXPECT_EQ(Measured(bytes, type).look, Look::kDamaged);
  }
}

TEST(FieldMemoryTest, DepthIsBoundedAsAParsersIs) {
  const Descriptor& type = *Shapes::descriptor();
  const auto nested = [](int depth) {
    return std::string(static_cast<std::size_t>(depth), '\x7b') +
           std::string(static_cast<std::size_t>(depth), '\x7c');
  };
  EXPECT_TRUE(Shapes().ParseFromString(nested(99)));
  EXPECT_EQ(Measured(nested(99), type).look, Look::kWhole);
  EXPECT_FALSE(Shapes().ParseFromString(nested(101)));
  EXPECT_EQ(Measured(nested(101), type).look, Look::kDamaged);
}

}  // namespace
}  // namespace idempotency::internal

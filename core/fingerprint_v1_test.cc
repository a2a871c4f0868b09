// The canonical form, against the vectors that every implementation shares and against the rules
// that hold for any request.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/dynamic_message.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

#include "core/canonical_form.h"
#include "core/length_prefix.h"
#include "core/sha256.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "testdata/legacy_rules.pb.h"
#include "testdata/legacy_shapes.pb.h"
#include "testdata/rules.pb.h"
#include "testdata/shapes.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::DynamicMessageFactory;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using testdata::LegacyShapes;
using testdata::OlderPayment;
using testdata::Payment;
using testdata::Shapes;

constexpr std::string_view kMethod = "/payments.v1.Payments/Charge";

struct Vector {
  std::string name;
  std::string method;
  std::string message;
  std::string wire;
  // "" if there is none.
  std::string key_field;
  std::map<std::string, std::vector<std::string>> metadata;
  std::string canonical;
  // The bytes after the canonical form.
  std::string suffix;
  std::string digest;
};

void PrintTo(const Vector& vector, std::ostream* out) { *out << vector.name; }

std::vector<Vector> ReadVectors() {
  std::ifstream file(IDEMPOTENCY_VECTORS);
  std::stringstream text;
  text << file.rdbuf();
  google::protobuf::Struct document;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage(text.str(), &document).ok());
  std::vector<Vector> vectors;
  for (const auto& value : document.fields().at("vectors").list_value().values()) {
    const auto& fields = value.struct_value().fields();
    const auto get = [&](const char* name) {
      const auto field = fields.find(name);
      return field == fields.end() ? "" : field->second.string_value();
    };
    Vector vector{get("name"),
                  get("method"),
                  get("message"),
                  absl::HexStringToBytes(get("wire")),
                  get("key_field"),
                  {},
                  absl::HexStringToBytes(get("canonical")),
                  absl::HexStringToBytes(get("suffix")),
                  get("digest")};
    if (fields.count("metadata") > 0) {
      for (const auto& [name, values] : fields.at("metadata").struct_value().fields()) {
        for (const auto& entry : values.list_value().values()) {
          vector.metadata[name].push_back(absl::HexStringToBytes(entry.string_value()));
        }
      }
    }
    vectors.push_back(std::move(vector));
  }
  return vectors;
}

const Descriptor* DescriptorOf(const std::string& message) {
  // Referenced, so that the linker keeps their descriptors.
  Payment::descriptor();
  LegacyShapes::descriptor();
  testdata::Order::descriptor();
  testdata::LegacyOrder::descriptor();
  return DescriptorPool::generated_pool()->FindMessageTypeByName(message);
}

std::string Hex(const std::string& bytes) { return absl::BytesToHexString(bytes); }

std::string DigestOf(const Message& request, std::string_view method = kMethod) {
  return Hex(FingerprintV1({method, request}).digest);
}

std::vector<const FieldDescriptor*> PathOf(const Descriptor* message, const std::string& name) {
  std::vector<const FieldDescriptor*> path;
  if (name.empty()) return path;
  for (const auto part : absl::StrSplit(name, '.')) {
    path.push_back(message->FindFieldByName(std::string(part)));
    message = path.back()->message_type();
  }
  return path;
}

std::string DigestOfWire(MessageFactory& factory, const Vector& vector, const std::string& wire) {
  const Descriptor* descriptor = DescriptorOf(vector.message);
  const std::unique_ptr<Message> message(factory.GetPrototype(descriptor)->New());
  EXPECT_TRUE(message->ParseFromString(wire)) << vector.name;
  const std::vector<const FieldDescriptor*> key_field = PathOf(descriptor, vector.key_field);
  FingerprintInput input{vector.method, *message, key_field};
  for (const auto& [name, values] : vector.metadata) {
    input.metadata[name].assign(values.begin(), values.end());
  }
  return Hex(FingerprintV1(input).digest);
}

class FingerprintVectorTest : public ::testing::TestWithParam<Vector> {};

TEST_P(FingerprintVectorTest, TheDigestIsThatOfTheCanonicalForm) {
  const Vector& vector = GetParam();
  std::string input;
  AppendBigEndian32(static_cast<std::uint32_t>(vector.method.size()), input);
  const Sha256Digest digest = Sha256(input + vector.method + vector.canonical + vector.suffix);
  EXPECT_EQ(Hex(std::string(digest.begin(), digest.end())), vector.digest);
}

TEST_P(FingerprintVectorTest, GeneratedMessages) {
  MessageFactory& factory = *MessageFactory::generated_factory();
  EXPECT_EQ(DigestOfWire(factory, GetParam(), GetParam().wire), GetParam().digest);
  EXPECT_EQ(DigestOfWire(factory, GetParam(), GetParam().canonical), GetParam().digest);
}

// Another implementation of the same messages, with its own rules for storage.
TEST_P(FingerprintVectorTest, DynamicMessages) {
  DynamicMessageFactory factory(DescriptorPool::generated_pool());
  EXPECT_EQ(DigestOfWire(factory, GetParam(), GetParam().wire), GetParam().digest);
}

INSTANTIATE_TEST_SUITE_P(Vectors, FingerprintVectorTest, ::testing::ValuesIn(ReadVectors()),
                         [](const auto& vector) { return vector.param.name; });

TEST(FingerprintV1Test, VersionAndSize) {
  const Fingerprint fingerprint = FingerprintV1({kMethod, Payment()});
  EXPECT_EQ(fingerprint.version, 1u);
  EXPECT_EQ(fingerprint.digest.size(), 32u);
}

TEST(FingerprintV1Test, MethodAndRequestDoNotRunTogether) {
  Payment payment;
  payment.set_payer("x");
  const std::string wire = payment.SerializeAsString();
  EXPECT_NE(DigestOf(payment, "m"), DigestOf(Payment(), "m" + wire));
}

// Equal requests: only the order in which the map was filled differs.
TEST(FingerprintV1Test, TheOrderOfAMapDoesNotMatter) {
  std::set<std::string> digests;
  for (int shift = 0; shift < 50; ++shift) {
    Shapes shapes;
    for (int i = 0; i < 50; ++i) {
      const int key = (i * 7 + shift) % 50;
      (*shapes.mutable_names_by_sint32())[key - 25] = "n";
      (*shapes.mutable_children_by_name())[std::to_string(key)].set_int32_value(key);
    }
    digests.insert(DigestOf(shapes));
  }
  EXPECT_EQ(digests.size(), 1u);
}

TEST(FingerprintV1Test, EqualWhetherBuiltOrReceived) {
  Shapes built;
  built.set_string_value("s");
  built.mutable_child()->mutable_child()->set_choice_string("");
  built.add_children()->add_doubles(-0.0);
  (*built.mutable_uint64_by_bool())[true] = 0;
  built.mutable_any()->PackFrom(Payment());
  Shapes received;
  ASSERT_TRUE(received.ParseFromString(built.SerializeAsString()));
  EXPECT_EQ(DigestOf(received), DigestOf(built));
}

// A request stays the same while fields are added to its message: the server that ran it and the
// one that receives the retry may be of different builds.
TEST(FingerprintV1Test, RollingOutANewFieldChangesNothing) {
  Shapes newer;
  newer.set_int32_value(-5);
  newer.set_sint64_value(-7);
  newer.set_double_value(0.25);
  newer.set_float_value(-0.0F);
  newer.set_string_value("s");
  newer.mutable_child()->set_int32_value(1);
  newer.add_packed_int32(0);
  newer.add_packed_int32(-1);
  newer.add_children()->set_bool_value(true);
  (*newer.mutable_names_by_sint32())[3] = "three";
  newer.set_optional_int32(0);
  testdata::Empty older;
  ASSERT_TRUE(older.ParseFromString(newer.SerializeAsString()));
  EXPECT_EQ(DigestOf(older), DigestOf(newer));
}

// Two values for each field, and every request has a different fingerprint.
TEST(FingerprintV1Test, DifferentRequestsDiffer) {
  std::map<std::string, std::string> seen;
  const auto add = [&](const std::string& name, const Message& request) {
    const auto [other, is_new] = seen.emplace(DigestOf(request), name);
    EXPECT_TRUE(is_new) << name << " and " << other->second;
  };
  add("nothing", Shapes());
  const Descriptor& descriptor = *Shapes::descriptor();
  for (int i = 0; i < descriptor.field_count(); ++i) {
    // A varint, four bytes, eight bytes and two lengths under every number: a value that the
    // field's type does not accept becomes an unknown field.
    const std::uint32_t number = descriptor.field(i)->number() << 3;
    const auto tag = [&](std::uint32_t type) {
      const std::uint32_t value = number | type;
      if (value < 0x80) return std::string(1, static_cast<char>(value));
      return std::string{static_cast<char>((value & 0x7F) | 0x80), static_cast<char>(value >> 7)};
    };
    const std::pair<const char*, std::string> wires[] = {
        {" varint", tag(0) + "\x01"},
        {" other varint", tag(0) + (number == (13u << 3) ? std::string("\0", 1) : "\x02")},
        {" fixed32", tag(5) + "\x01\x02\x03\x04"},
        {" fixed64", tag(1) + "\x01\x02\x03\x04\x05\x06\x07\x08"},
        {" two", tag(0) + "\x01" + tag(0) + "\x01" + tag(5) + "\x01\x02\x03\x04"},
    };
    for (const auto& [kind, wire] : wires) {
      Shapes shapes;
      ASSERT_TRUE(shapes.ParseFromString(wire));
      if (shapes.ByteSizeLong() == 0) continue;  // `false` without presence is not written.
      add(absl::StrCat(descriptor.field(i)->name(), kind), shapes);
    }
  }
  EXPECT_GT(seen.size(), 100u);
}

TEST(FingerprintV1Test, PartsOfStringsDoNotRunTogether) {
  Shapes one;
  one.add_strings("ab");
  one.add_strings("c");
  Shapes other;
  other.add_strings("a");
  other.add_strings("bc");
  EXPECT_NE(DigestOf(one), DigestOf(other));
  Shapes swapped;
  swapped.add_strings("c");
  swapped.add_strings("ab");
  EXPECT_NE(DigestOf(one), DigestOf(swapped));
}

TEST(FingerprintV1Test, ReadingLeavesTheRequestAsItWas) {
  Shapes shapes;
  (*shapes.mutable_names_by_sint32())[3] = "three";
  const std::string before = shapes.SerializeAsString();
  DigestOf(shapes);
  EXPECT_EQ(shapes.SerializeAsString(), before);
  EXPECT_EQ(shapes.names_by_sint32().at(3), "three");
}

TEST(FingerprintV1Test, DeepRequests) {
  Shapes shapes;
  Shapes* child = &shapes;
  for (int i = 0; i < 90; ++i) child = child->mutable_child();
  child->set_bool_value(true);
  Shapes received;
  ASSERT_TRUE(received.ParseFromString(shapes.SerializeAsString()));
  EXPECT_EQ(DigestOf(received), DigestOf(shapes));
}

// A request of `depth` messages below the outermost, each in the next, with `text` in the
// innermost, in four ways in turn: a field, an element, a member of a oneof, a map's value, which
// takes two levels.
Shapes Nested(int depth, const std::string& text) {
  Shapes request;
  Shapes* innermost = &request;
  for (int level = 0; level < depth; ++level) {
    const int way = level % 4;
    if (way == 3 && level + 1 < depth) {
      innermost = &(*innermost->mutable_children_by_name())["a child"];
      ++level;
    } else {
      innermost = way == 0   ? innermost->mutable_child()
                  : way == 1 ? innermost->add_children()
                             : innermost->mutable_choice_child();
    }
  }
  innermost->set_string_value(text);
  return request;
}

// Work is counted in bytes: with a length inserted in front of each message after its contents were
// written, a byte would be moved once for each message around it.
TEST(CanonicalFormTest, NoByteIsMovedTwiceHoweverDeepTheRequest) {
  const std::string text(1 << 20, 't');
  for (const int depth : {0, 1, 2, 10, kMaxCanonicalDepth}) {
    std::string form = "before";
    CanonicalFormCost cost;
    ASSERT_TRUE(AppendCanonicalForm(Nested(depth, text), {}, form, &cost)) << depth;
    EXPECT_EQ(cost.bytes_written, form.size() - 6) << depth;
    EXPECT_LE(cost.bytes_moved, cost.bytes_written) << depth;
    EXPECT_EQ(form.substr(0, 6), "before");
  }
}

TEST(CanonicalFormTest, ManySmallMessagesAreMovedOnce) {
  Shapes request;
  for (int i = 0; i < 10'000; ++i) {
    request.add_children()->mutable_child()->add_packed_int32(i);
    (*request.mutable_children_by_name())[std::to_string(i)].set_int32_value(i);
  }
  std::string form;
  CanonicalFormCost cost;
  ASSERT_TRUE(AppendCanonicalForm(request, {}, form, &cost));
  EXPECT_LE(cost.bytes_moved, form.size());
  Shapes read;
  ASSERT_TRUE(read.ParseFromString(form));
  EXPECT_EQ(FingerprintV1({kMethod, read}).digest, FingerprintV1({kMethod, request}).digest);
}

TEST(CanonicalFormTest, IsAsDeepAsAParserTakes) {
  const Shapes deepest = Nested(kMaxCanonicalDepth, "text");
  Shapes read;
  ASSERT_TRUE(read.ParseFromString(deepest.SerializeAsString()));
  EXPECT_EQ(FingerprintV1({kMethod, read}).digest.size(), 32u);

  const Shapes too_deep = Nested(kMaxCanonicalDepth + 1, "text");
  EXPECT_FALSE(read.ParseFromString(too_deep.SerializeAsString())) << "no request is so deep";
  std::string form = "before";
  EXPECT_FALSE(AppendCanonicalForm(too_deep, {}, form));
  EXPECT_EQ(form, "before");
  EXPECT_EQ(FingerprintV1({kMethod, too_deep}).digest, "") << "which no service takes";
}

// A client may put the key into the request or into the metadata, in any spelling: the request is
// the same.
TEST(KeyFieldTest, TheKeyIsNoPartOfTheRequest) {
  const auto digest = [](const testdata::Order& order, const std::string& key_field) {
    const std::vector<const FieldDescriptor*> path =
        PathOf(testdata::Order::descriptor(), key_field);
    return Hex(FingerprintV1({kMethod, order, path}).digest);
  };
  testdata::Order without;
  without.set_item("lamp");
  testdata::Order with = without;
  with.set_request_id("17");
  EXPECT_NE(DigestOf(with), DigestOf(without));
  EXPECT_EQ(digest(with, "request_id"), DigestOf(without));
  testdata::Order nested = without;
  nested.mutable_header()->mutable_forwarded()->set_request_id("17");
  EXPECT_EQ(digest(nested, "header.forwarded.request_id"), DigestOf(without));
  // Other fields on the path, and fields of the same name, still count.
  nested.mutable_header()->set_request_id("18");
  EXPECT_NE(digest(nested, "header.forwarded.request_id"), DigestOf(without));
  with.mutable_part()->set_request_id("17");
  EXPECT_NE(digest(with, "request_id"), digest(without, "request_id"));
}

TEST(ExcludedFieldsTest, AreLeftOutAtEveryDepth) {
  testdata::Order plain;
  plain.mutable_part()->mutable_part()->set_item("lamp");
  plain.add_parts();
  (*plain.mutable_parts_by_name())["a"].set_item("bulb");
  testdata::Order traced = plain;
  traced.set_trace_id("t1");
  traced.mutable_part()->mutable_part()->set_trace_id("t2");
  traced.mutable_parts(0)->set_trace_id("t3");
  traced.mutable_parts(0)->add_timings(5);
  (*traced.mutable_parts_by_name())["a"].set_trace_id("t4");
  (*traced.mutable_baggage())["b"] = "t5";
  traced.mutable_bundle()->set_item("t6");
  EXPECT_EQ(DigestOf(traced), DigestOf(plain));
  // The packed message counts by its bytes.
  plain.mutable_extra()->PackFrom(testdata::Order());
  traced.mutable_extra()->PackFrom(traced.part().part());
  EXPECT_NE(DigestOf(traced), DigestOf(plain));
}

}  // namespace
}  // namespace idempotency::internal

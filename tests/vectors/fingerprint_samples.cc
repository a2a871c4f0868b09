// Prints random requests with their fingerprints, one JSON object in a line, with the members of
// the vectors: for another implementation to compute again.
//
//   fingerprint_samples SEED COUNT
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "core/protobuf_version.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "testdata/legacy_rules.pb.h"
#include "testdata/legacy_shapes.pb.h"
#include "testdata/rules.pb.h"
#include "testdata/shapes.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 4;

class Sampler {
 public:
  explicit Sampler(std::uint64_t seed) : random_(seed) {}

  // A line, or "" if the draw produced no request.
  std::string Line();

 private:
  // 0 to n - 1.
  int Below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool OneIn(int n) { return Below(n) == 0; }
  std::uint64_t Bits();
  std::string Text();
  const Descriptor* Type();
  std::string Wire(const Descriptor* type);
  void Fill(Message& message, int depth);
  void Set(Message& message, const FieldDescriptor& field, int depth);
  void Add(Message& message, const FieldDescriptor& field, int depth);
  std::string KeyField(const Descriptor* type);

  std::mt19937_64 random_;
};

std::unique_ptr<Message> New(const Descriptor* type) {
  return std::unique_ptr<Message>(MessageFactory::generated_factory()->GetPrototype(type)->New());
}

// Edges more often than by chance; a NaN with bits of its own.
std::uint64_t Sampler::Bits() {
  constexpr std::array<std::uint64_t, 11> kEdges = {0,
                                                    1,
                                                    0x7F,
                                                    0x80,
                                                    ~0ULL,
                                                    1ULL << 63,
                                                    0xFFFFFFFF,
                                                    0x80000000,
                                                    0x7FA00001,
                                                    0xFF800001,
                                                    0xFFF0000000000001};
  return OneIn(2) ? kEdges[Below(kEdges.size())] : random_();
}

std::string Sampler::Text() {
  std::string text;
  for (int size = Below(OneIn(10) ? 200 : 4); size > 0; --size) {
    text.push_back(static_cast<char>('a' + Below(3)));
  }
  return text;
}

const Descriptor* Sampler::Type() {
  const std::array<const Descriptor*, 7> types = {
      testdata::Shapes::descriptor(),      testdata::Order::descriptor(),
      testdata::Index::descriptor(),       testdata::LegacyShapes::descriptor(),
      testdata::LegacyOrder::descriptor(), testdata::Payment::descriptor(),
      testdata::Empty::descriptor()};
  return types[Below(types.size())];
}

float FloatOf(std::uint64_t bits) {
  float value;
  const auto low = static_cast<std::uint32_t>(bits);
  std::memcpy(&value, &low, sizeof value);
  return value;
}

double DoubleOf(std::uint64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void Sampler::Set(Message& message, const FieldDescriptor& field, int depth) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, static_cast<std::int32_t>(Bits()));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, static_cast<std::int64_t>(Bits()));
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, static_cast<std::uint32_t>(Bits()));
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, Bits());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, DoubleOf(Bits()));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, FloatOf(Bits()));
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, OneIn(2));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnum(&message, &field,
                                field.enum_type()->value(Below(field.enum_type()->value_count())));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, Text());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(*reflection.MutableMessage(&message, &field), depth + 1);
  }
}

void Sampler::Add(Message& message, const FieldDescriptor& field, int depth) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.AddInt32(&message, &field, static_cast<std::int32_t>(Bits()));
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.AddInt64(&message, &field, static_cast<std::int64_t>(Bits()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.AddDouble(&message, &field, DoubleOf(Bits()));
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.AddEnum(&message, &field,
                                field.enum_type()->value(Below(field.enum_type()->value_count())));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.AddString(&message, &field, Text());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Fill(*reflection.AddMessage(&message, &field), depth + 1);
    default:
      std::cerr << field.full_name() << " has a type that no sample has\n";
      std::abort();
  }
}

void Sampler::Fill(Message& message, int depth) {
  const Descriptor& type = *message.GetDescriptor();
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < type.field_count(); ++i) fields.push_back(type.field(i));
  type.file()->pool()->FindAllExtensions(&type, &fields);
  for (const FieldDescriptor* field : fields) {
    if (!OneIn(depth == 0 ? 4 : 6)) continue;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && depth >= kMaxDepth) continue;
    if (!field->is_repeated()) {
      Set(message, *field, depth);
      continue;
    }
    for (int size = Below(4); size > 0; --size) Add(message, *field, depth);
  }
}

// Two encodings in a row are the merged message. One of another type is full of unknown fields and
// of known ones with other wire types.
std::string Sampler::Wire(const Descriptor* type) {
  std::string wire;
  for (int parts = 1 + Below(2); parts > 0; --parts) {
    const std::unique_ptr<Message> part = New(OneIn(4) ? Type() : type);
    Fill(*part, 0);
    wire += part->SerializePartialAsString();
  }
  return wire;
}

std::string Sampler::KeyField(const Descriptor* type) {
  if (type != testdata::Order::descriptor()) return "";
  const std::array<const char*, 5> fields = {"", "request_id", "optional_id", "header.request_id",
                                             "header.forwarded.request_id"};
  return fields[Below(fields.size())];
}

std::vector<const FieldDescriptor*> PathOf(const Descriptor* type, const std::string& name) {
  std::vector<const FieldDescriptor*> path;
  if (name.empty()) return path;
  for (const auto part : absl::StrSplit(name, '.')) {
    path.push_back(type->FindFieldByName(std::string(part)));
    type = path.back()->message_type();
  }
  return path;
}

std::string Quoted(const std::string& text) { return absl::StrCat("\"", text, "\""); }
std::string Hex(const std::string& bytes) { return Quoted(absl::BytesToHexString(bytes)); }

std::string Sampler::Line() {
  const Descriptor* type = Type();
  const std::string wire = Wire(type);
  const std::unique_ptr<Message> request = New(type);
  if (!request->ParsePartialFromString(wire)) return "";

  const std::string method = Text();
  const std::string key_field = KeyField(type);
  const std::vector<const FieldDescriptor*> path = PathOf(type, key_field);
  std::map<std::string, std::vector<std::string>> metadata;
  for (int names = OneIn(2) ? Below(3) : 0; names > 0; --names) {
    std::vector<std::string>& values = metadata[absl::StrCat("x", Text())];
    for (int count = 1 + Below(2); count > 0; --count) values.push_back(Text());
  }
  FingerprintInput input{method, *request, path};
  std::vector<std::string> members;
  for (const auto& [name, values] : metadata) {
    input.metadata[name].assign(values.begin(), values.end());
    members.push_back(absl::StrCat(
        Quoted(name), ": [",
        absl::StrJoin(values, ", ",
                      [](std::string* out, const std::string& value) { *out += Hex(value); }),
        "]"));
  }
  return absl::StrCat("{\"method\": ", Quoted(method), ", \"message\": ", Quoted(type->full_name()),
                      ", \"wire\": ", Hex(wire), ", \"key_field\": ", Quoted(key_field),
                      ", \"metadata\": {", absl::StrJoin(members, ", "),
                      "}, \"digest\": ", Hex(FingerprintV1(input).digest), "}");
}

}  // namespace
}  // namespace idempotency::internal

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: fingerprint_samples SEED COUNT\n";
    return 2;
  }
  // Samples that do not parse, their strings being no UTF-8, are passed over.
  const idempotency::internal::SilentProtobuf silent;
  idempotency::internal::Sampler sampler(std::strtoull(argv[1], nullptr, 10));
  for (long left = std::strtol(argv[2], nullptr, 10); left > 0;) {
    const std::string line = sampler.Line();
    if (line.empty()) continue;
    std::cout << line << "\n";
    --left;
  }
}

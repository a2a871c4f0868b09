#include "core/canonical_form.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

#include "idempotency/v1/options.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::UnknownField;
using google::protobuf::UnknownFieldSet;

enum class WireType : std::uint32_t {
  kVarint = 0,
  kFixed64 = 1,
  kLength = 2,
  kStartGroup = 3,
  kEndGroup = 4,
  kFixed32 = 5,
};

constexpr std::uint32_t kCanonicalNan32 = 0x7FC00000;
constexpr std::uint64_t kCanonicalNan64 = 0x7FF8000000000000;

std::size_t VarintBytes(std::uint64_t value) {
  std::size_t bytes = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++bytes;
  }
  return bytes;
}

void AppendVarint(std::uint64_t value, std::string& out) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>((value & 0x7F) | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

// Writes into one buffer. The length of a message is known when its contents are
// there; all lengths are inserted at the end, in one pass, so that a byte is
// moved once however many messages are around it.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out), begin_(out.size()) {}

  // The whole form. False, with the buffer unchanged, if it is nested too deep.
  bool Write(const Message& message, FieldPath key_field, CanonicalFormCost* cost);

 private:
  // Where a length belongs. Positions do not count the lengths themselves.
  struct Length {
    std::size_t position;
    // Until its contents are complete: the value of lengths_bytes_ before them.
    std::size_t value;
  };

  void WriteMessage(const Message& message, FieldPath key_field);
  void WriteField(const Message& message, const FieldDescriptor& field);
  // The first field of `key_field`: nothing of it, if nothing but the key is
  // in it.
  void WriteWithoutKey(const Message& message, FieldPath key_field);
  void WritePacked(const Message& message, const FieldDescriptor& field);
  void WriteMap(const Message& message, const FieldDescriptor& field);
  // `index` is -1 for a field that is not repeated.
  void WriteElement(const Message& message, const FieldDescriptor& field, int index);
  void WriteSubmessage(const Message& message, const FieldDescriptor& field, int index);
  // Around the contents, after the tag. A group has no length.
  void BeginSubmessage(const FieldDescriptor& field);
  void EndSubmessage(const FieldDescriptor& field, std::size_t index);
  void WriteString(const Message& message, const FieldDescriptor& field, int index);
  void WriteNumber(const Message& message, const FieldDescriptor& field, int index);

  void WriteUnknown(const UnknownField& field);
  void WriteUnknownGroup(const UnknownFieldSet& fields);

  void WriteTag(int number, WireType type) {
    WriteVarint((static_cast<std::uint64_t>(number) << 3) | static_cast<std::uint64_t>(type));
  }
  void WriteVarint(std::uint64_t value) { AppendVarint(value, out_); }
  void WriteFixed(std::uint64_t value, int bytes);
  void WriteBytes(std::string_view bytes);

  // The output between the two calls gets its length as a prefix. `index` is
  // the value of lengths_.size() before.
  void BeginLength() { lengths_.push_back({out_.size(), lengths_bytes_}); }
  void EndLength(std::size_t index);
  void InsertLengths(CanonicalFormCost* cost);
  // False, permanently, one level below kMaxCanonicalDepth. Each true needs its
  // Leave().
  bool Enter();
  void Leave() { --depth_; }

  std::string& out_;
  const std::size_t begin_;
  // In ascending order of their positions.
  std::vector<Length> lengths_;
  // The size of the complete ones as varints.
  std::size_t lengths_bytes_ = 0;
  int depth_ = 0;
  bool too_deep_ = false;
};

std::uint64_t ZigZag(std::uint64_t value) {
  const bool negative = (value >> 63) != 0;
  return (value << 1) ^ (negative ? ~std::uint64_t{0} : 0);
}

std::uint32_t BitsOf(float value) {
  if (std::isnan(value)) return kCanonicalNan32;
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::uint64_t BitsOf(double value) {
  if (std::isnan(value)) return kCanonicalNan64;
  std::uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

bool IsExcluded(const FieldDescriptor& field) {
  return field.options().GetExtension(v1::fingerprint) == v1::FieldPolicy::FINGERPRINT_EXCLUDE;
}

bool IsZigZag(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_SINT32 ||
         field.type() == FieldDescriptor::TYPE_SINT64;
}

WireType WireTypeOf(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_DOUBLE:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED64:
      return WireType::kFixed64;
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_SFIXED32:
      return WireType::kFixed32;
    case FieldDescriptor::TYPE_STRING:
    case FieldDescriptor::TYPE_BYTES:
    case FieldDescriptor::TYPE_MESSAGE:
      return WireType::kLength;
    case FieldDescriptor::TYPE_GROUP:
      return WireType::kStartGroup;
    default:
      return WireType::kVarint;
  }
}

// A value by one getter of Reflection or the other; `index` is -1 for a field
// that is not repeated.
template <typename T>
T Get(const Message& message, const FieldDescriptor& field, int index,
      T (Reflection::*single)(const Message&, const FieldDescriptor*) const,
      T (Reflection::*repeated)(const Message&, const FieldDescriptor*, int) const) {
  const Reflection& reflection = *message.GetReflection();
  return index < 0 ? (reflection.*single)(message, &field)
                   : (reflection.*repeated)(message, &field, index);
}

// The bits of a number; signed ones are extended to 64 bits, as protobuf does.
std::uint64_t NumberBits(const Message& message, const FieldDescriptor& field, int index) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return Get(message, field, index, &Reflection::GetInt32, &Reflection::GetRepeatedInt32);
    case FieldDescriptor::CPPTYPE_INT64:
      return Get(message, field, index, &Reflection::GetInt64, &Reflection::GetRepeatedInt64);
    case FieldDescriptor::CPPTYPE_UINT32:
      return Get(message, field, index, &Reflection::GetUInt32, &Reflection::GetRepeatedUInt32);
    case FieldDescriptor::CPPTYPE_UINT64:
      return Get(message, field, index, &Reflection::GetUInt64, &Reflection::GetRepeatedUInt64);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return BitsOf(
          Get(message, field, index, &Reflection::GetDouble, &Reflection::GetRepeatedDouble));
    case FieldDescriptor::CPPTYPE_FLOAT:
      return BitsOf(
          Get(message, field, index, &Reflection::GetFloat, &Reflection::GetRepeatedFloat));
    case FieldDescriptor::CPPTYPE_BOOL:
      return Get(message, field, index, &Reflection::GetBool, &Reflection::GetRepeatedBool);
    default:  // Only enumerations are left; their number, known or not.
      return Get(message, field, index, &Reflection::GetEnumValue,
                 &Reflection::GetRepeatedEnumValue);
  }
}

// A map's key, with an order that needs no knowledge of the encoding: numbers
// by value, false before true, strings byte by byte.
struct MapEntry {
  std::int64_t signed_key = 0;
  std::uint64_t unsigned_key = 0;
  std::string text_key;
  const Message* message = nullptr;

  friend bool operator<(const MapEntry& a, const MapEntry& b) {
    return std::tie(a.signed_key, a.unsigned_key, a.text_key) <
           std::tie(b.signed_key, b.unsigned_key, b.text_key);
  }
};

MapEntry MapEntryOf(const Message& entry) {
  const Reflection& reflection = *entry.GetReflection();
  const FieldDescriptor* key = entry.GetDescriptor()->map_key();
  MapEntry result;
  result.message = &entry;
  switch (key->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      result.signed_key = reflection.GetInt32(entry, key);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      result.signed_key = reflection.GetInt64(entry, key);
      break;
    case FieldDescriptor::CPPTYPE_UINT32:
      result.unsigned_key = reflection.GetUInt32(entry, key);
      break;
    case FieldDescriptor::CPPTYPE_UINT64:
      result.unsigned_key = reflection.GetUInt64(entry, key);
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      result.unsigned_key = reflection.GetBool(entry, key) ? 1 : 0;
      break;
    default:
      result.text_key = reflection.GetString(entry, key);
      break;
  }
  return result;
}

std::vector<const UnknownField*> SortedByNumber(const UnknownFieldSet& fields) {
  std::vector<const UnknownField*> sorted;
  sorted.reserve(fields.field_count());
  for (int i = 0; i < fields.field_count(); ++i) sorted.push_back(&fields.field(i));
  std::stable_sort(sorted.begin(), sorted.end(), [](const UnknownField* a, const UnknownField* b) {
    return a->number() < b->number();
  });
  return sorted;
}

bool Writer::Write(const Message& message, FieldPath key_field, CanonicalFormCost* cost) {
  WriteMessage(message, key_field);
  if (too_deep_) {
    out_.resize(begin_);
    return false;
  }
  InsertLengths(cost);
  return true;
}

void Writer::WriteMessage(const Message& message, FieldPath key_field) {
  const Reflection& reflection = *message.GetReflection();
  // Exactly the fields that count, extensions among them, in number order.
  std::vector<const FieldDescriptor*> known;
  reflection.ListFields(message, &known);
  const std::vector<const UnknownField*> unknown =
      SortedByNumber(reflection.GetUnknownFields(message));
  auto next_unknown = unknown.begin();
  for (const FieldDescriptor* field : known) {
    for (; next_unknown != unknown.end() && (*next_unknown)->number() < field->number();
         ++next_unknown) {
      WriteUnknown(**next_unknown);
    }
    if (IsExcluded(*field)) continue;
    if (!key_field.empty() && field == key_field.front()) {
      WriteWithoutKey(message, key_field);
    } else {
      WriteField(message, *field);
    }
  }
  for (; next_unknown != unknown.end(); ++next_unknown) WriteUnknown(**next_unknown);
}

void Writer::WriteField(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) return WriteElement(message, field, -1);
  if (field.is_map()) return WriteMap(message, field);
  if (field.is_packable()) return WritePacked(message, field);
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) WriteElement(message, field, i);
}

void Writer::WriteWithoutKey(const Message& message, FieldPath key_field) {
  const FieldDescriptor& field = *key_field.front();
  if (key_field.size() == 1) return;
  if (!Enter()) return;
  const std::size_t before = out_.size();
  const std::size_t index = lengths_.size();
  WriteTag(field.number(), WireTypeOf(field));
  BeginSubmessage(field);
  const std::size_t start = out_.size();
  WriteMessage(message.GetReflection()->GetMessage(message, &field), key_field.subspan(1));
  if (out_.size() == start) {
    out_.resize(before);
    lengths_.resize(index);
  } else {
    EndSubmessage(field, index);
  }
  Leave();
}

void Writer::WritePacked(const Message& message, const FieldDescriptor& field) {
  WriteTag(field.number(), WireType::kLength);
  const std::size_t index = lengths_.size();
  BeginLength();
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) WriteNumber(message, field, i);
  EndLength(index);
}

void Writer::WriteMap(const Message& message, const FieldDescriptor& field) {
  if (!Enter()) return;
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  std::vector<MapEntry> entries;
  entries.reserve(size);
  for (int i = 0; i < size; ++i) {
    entries.push_back(MapEntryOf(reflection.GetRepeatedMessage(message, &field, i)));
  }
  // Messages made at run time keep a duplicate key: the last one counts.
  std::stable_sort(entries.begin(), entries.end());
  const FieldDescriptor& key = *field.message_type()->map_key();
  const FieldDescriptor& value = *field.message_type()->map_value();
  for (auto entry = entries.begin(); entry != entries.end(); ++entry) {
    const auto next = entry + 1;
    if (next != entries.end() && !(*entry < *next)) continue;
    WriteTag(field.number(), WireType::kLength);
    const std::size_t index = lengths_.size();
    BeginLength();
    WriteElement(*entry->message, key, -1);
    WriteElement(*entry->message, value, -1);
    EndLength(index);
  }
  Leave();
}

void Writer::WriteElement(const Message& message, const FieldDescriptor& field, int index) {
  WriteTag(field.number(), WireTypeOf(field));
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return WriteSubmessage(message, field, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return WriteString(message, field, index);
    default:
      return WriteNumber(message, field, index);
  }
}

void Writer::WriteSubmessage(const Message& message, const FieldDescriptor& field, int index) {
  if (!Enter()) return;
  const Reflection& reflection = *message.GetReflection();
  const std::size_t length = lengths_.size();
  BeginSubmessage(field);
  WriteMessage(index < 0 ? reflection.GetMessage(message, &field)
                         : reflection.GetRepeatedMessage(message, &field, index),
               FieldPath());
  EndSubmessage(field, length);
  Leave();
}

void Writer::BeginSubmessage(const FieldDescriptor& field) {
  if (field.type() != FieldDescriptor::TYPE_GROUP) BeginLength();
}

void Writer::EndSubmessage(const FieldDescriptor& field, std::size_t index) {
  if (field.type() == FieldDescriptor::TYPE_GROUP) {
    WriteTag(field.number(), WireType::kEndGroup);
  } else {
    EndLength(index);
  }
}

void Writer::WriteNumber(const Message& message, const FieldDescriptor& field, int index) {
  const std::uint64_t bits = NumberBits(message, field, index);
  switch (WireTypeOf(field)) {
    case WireType::kFixed32:
      return WriteFixed(bits, 4);
    case WireType::kFixed64:
      return WriteFixed(bits, 8);
    default:
      return WriteVarint(IsZigZag(field) ? ZigZag(bits) : bits);
  }
}

void Writer::WriteString(const Message& message, const FieldDescriptor& field, int index) {
  const Reflection& reflection = *message.GetReflection();
  std::string scratch;
  WriteBytes(index < 0 ? reflection.GetStringReference(message, &field, &scratch)
                       : reflection.GetRepeatedStringReference(message, &field, index, &scratch));
}

void Writer::WriteUnknown(const UnknownField& field) {
  switch (field.type()) {
    case UnknownField::TYPE_VARINT:
      WriteTag(field.number(), WireType::kVarint);
      return WriteVarint(field.varint());
    case UnknownField::TYPE_FIXED32:
      WriteTag(field.number(), WireType::kFixed32);
      return WriteFixed(field.fixed32(), 4);
    case UnknownField::TYPE_FIXED64:
      WriteTag(field.number(), WireType::kFixed64);
      return WriteFixed(field.fixed64(), 8);
    case UnknownField::TYPE_LENGTH_DELIMITED:
      WriteTag(field.number(), WireType::kLength);
      return WriteBytes(field.length_delimited());
    case UnknownField::TYPE_GROUP:
      WriteTag(field.number(), WireType::kStartGroup);
      WriteUnknownGroup(field.group());
      return WriteTag(field.number(), WireType::kEndGroup);
  }
}

void Writer::WriteUnknownGroup(const UnknownFieldSet& fields) {
  if (!Enter()) return;
  for (const UnknownField* field : SortedByNumber(fields)) WriteUnknown(*field);
  Leave();
}

void Writer::WriteFixed(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>((value >> (8 * i)) & 0xFF));
}

void Writer::WriteBytes(std::string_view bytes) {
  WriteVarint(bytes.size());
  out_.append(bytes);
}

bool Writer::Enter() {
  if (depth_ == kMaxCanonicalDepth) too_deep_ = true;
  // The output will not be used.
  if (too_deep_) return false;
  ++depth_;
  return true;
}

void Writer::EndLength(std::size_t index) {
  Length& length = lengths_[index];
  length.value = out_.size() - length.position + (lengths_bytes_ - length.value);
  lengths_bytes_ += VarintBytes(length.value);
}

// From the back, so that everything moves once, straight to its place.
void Writer::InsertLengths(CanonicalFormCost* cost) {
  std::size_t source_end = out_.size();
  out_.resize(out_.size() + lengths_bytes_);
  std::size_t end = out_.size();
  std::size_t moved = 0;
  std::string varint;
  for (auto length = lengths_.rbegin(); length != lengths_.rend(); ++length) {
    const std::size_t bytes = source_end - length->position;
    end -= bytes;
    std::memmove(out_.data() + end, out_.data() + length->position, bytes);
    source_end = length->position;
    moved += bytes;
    varint.clear();
    AppendVarint(length->value, varint);
    end -= varint.size();
    varint.copy(out_.data() + end, varint.size());
  }
  if (cost != nullptr) *cost = {out_.size() - begin_, moved};
}

}  // namespace

bool AppendCanonicalForm(const Message& message, FieldPath key_field, std::string& out,
                         CanonicalFormCost* cost) {
  return Writer(out).Write(message, key_field, cost);
}

}  // namespace idempotency::internal

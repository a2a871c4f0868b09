#include "core/field_memory.h"

#include <cstdint>
#include <limits>

#include "google/protobuf/wire_format_lite.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using Look = FieldMemory::Look;

// Protobuf's own limit.
constexpr int kMaxDepth = 100;
constexpr std::uint32_t kMaxLength = std::numeric_limits<int>::max();

// nullptr: unknown. Dynamic messages also have the extensions of their pool.
const FieldDescriptor* FieldOf(const Descriptor* type, int number) {
  if (type == nullptr) return nullptr;
  if (type->IsExtensionNumber(number)) {
    return type->file()->pool()->FindExtensionByNumber(type, number);
  }
  return type->FindFieldByNumber(number);
}

std::size_t ElementBytes(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_BOOL:
      return sizeof(bool);
    case FieldDescriptor::CPPTYPE_INT64:
    case FieldDescriptor::CPPTYPE_UINT64:
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return sizeof(std::uint64_t);
    default:
      return sizeof(std::uint32_t);
  }
}

// True for a fixed width: the elements take the memory of their bytes.
bool IsFixedWidth(const FieldDescriptor& field) {
  switch (field.type()) {
    case FieldDescriptor::TYPE_FIXED32:
    case FieldDescriptor::TYPE_FIXED64:
    case FieldDescriptor::TYPE_SFIXED32:
    case FieldDescriptor::TYPE_SFIXED64:
    case FieldDescriptor::TYPE_FLOAT:
    case FieldDescriptor::TYPE_DOUBLE:
      return true;
    default:
      return false;
  }
}

class FieldMeter {
 public:
  FieldMeter(CodedInputStream& in, std::size_t most, EmptyMessageBytes empty_message_bytes)
      : in_(in), most_(most), empty_message_bytes_(empty_message_bytes) {}

  // Fields up to the end of the message, or of the group that `end_tag` ends. `type` is nullptr in
  // an unknown group.
  Look Measure(const Descriptor* type, std::uint32_t end_tag, int depth) {
    if (depth > kMaxDepth) return Look::kDamaged;
    while (const std::uint32_t tag = in_.ReadTag()) {
      if (tag == end_tag) return Look::kWhole;
      if (!Take(kFieldBytes)) return Look::kOverBound;
      if (const Look look = MeasureInside(type, tag, depth); look != Look::kWhole) return look;
    }
    return end_tag == 0 && in_.ConsumedEntireMessage() ? Look::kWhole : Look::kDamaged;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  bool Take(std::size_t bytes) {
    if (bytes > most_ - bytes_) return false;
    bytes_ += bytes;
    return true;
  }

  Look MeasureInside(const Descriptor* type, std::uint32_t tag, int depth) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_START_GROUP:
        return MeasureGroup(FieldOf(type, number), number, depth);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        const FieldDescriptor* const field = FieldOf(type, number);
        if (field == nullptr) break;
        if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
          return MeasureMessage(*field->message_type(), depth);
        }
        if (field->is_packable() && !IsFixedWidth(*field)) return MeasurePacked(*field);
        break;
      }
      default:
        break;
    }
    return WireFormatLite::SkipField(&in_, tag) ? Look::kWhole : Look::kDamaged;
  }

  Look MeasureGroup(const FieldDescriptor* field, int number, int depth) {
    const bool is_known = field != nullptr && field->type() == FieldDescriptor::TYPE_GROUP;
    const Descriptor* const type = is_known ? field->message_type() : nullptr;
    if (type != nullptr && !Take(empty_message_bytes_(*type))) return Look::kOverBound;
    return Measure(type, WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_END_GROUP),
                   depth + 1);
  }

  Look MeasureMessage(const Descriptor& type, int depth) {
    if (!Take(empty_message_bytes_(type))) return Look::kOverBound;
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > kMaxLength) return Look::kDamaged;
    const auto limit = in_.PushLimit(static_cast<int>(length));
    const Look look = Measure(&type, 0, depth + 1);
    in_.PopLimit(limit);
    return look;
  }

  // A byte can be an element.
  Look MeasurePacked(const FieldDescriptor& field) {
    std::uint32_t length = 0;
    if (!in_.ReadVarint32(&length) || length > kMaxLength) return Look::kDamaged;
    const auto limit = in_.PushLimit(static_cast<int>(length));
    Look look = Look::kWhole;
    while (look == Look::kWhole && in_.BytesUntilLimit() > 0) {
      std::uint64_t element = 0;
      if (!in_.ReadVarint64(&element)) {
        look = Look::kDamaged;
      } else if (!Take(ElementBytes(field))) {
        look = Look::kOverBound;
      }
    }
    in_.PopLimit(limit);
    return look;
  }

  CodedInputStream& in_;
  const std::size_t most_;
  const EmptyMessageBytes empty_message_bytes_;
  std::size_t bytes_ = 0;
};

}  // namespace

FieldMemory MeasureFields(CodedInputStream& in, const Descriptor& type, std::size_t most,
                          EmptyMessageBytes empty_message_bytes) {
  FieldMeter meter(in, most, empty_message_bytes);
  const Look look = meter.Measure(&type, 0, 0);
  return {look, meter.bytes()};
}

}  // namespace idempotency::internal

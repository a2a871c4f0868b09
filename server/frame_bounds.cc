#include "server/frame_bounds.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"

#include "core/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::uint32_t kOperationsTag = WireFormatLite::MakeTag(
    v1::SessionRequest::kOperationsFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
// Protobuf's own limit.
constexpr int kMaxDepth = 100;

absl::Status TooManyOperations(const FrameBounds& bounds) {
  return InvalidField("operations", absl::StrCat("must be at most ", bounds.max_operations,
                                                 " in one frame: send them in several"));
}

absl::Status TooManyFields() {
  return InvalidField("operations",
                      "have more fields than one frame may: send them in several frames");
}

// At the top level alone: everything else is skipped.
absl::Status CountOperations(CodedInputStream& in, const FrameBounds& bounds) {
  std::size_t operations = 0;
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag == kOperationsTag && ++operations > bounds.max_operations) {
      return TooManyOperations(bounds);
    }
    if (!WireFormatLite::SkipField(&in, tag)) return UnreadableFrame();
  }
  return in.ConsumedEntireMessage() ? absl::OkStatus() : UnreadableFrame();
}

// Every field at every depth.
class FieldCount {
 public:
  FieldCount(CodedInputStream& in, std::size_t most) : in_(in), left_(most) {}

  // Fields up to the end of the message, or of the group that `end_tag` ends.
  // `type` is nullptr in a group: nothing of ours has any.
  absl::Status Count(const Descriptor* type, std::uint32_t end_tag, int depth) {
    if (depth > kMaxDepth) return UnreadableFrame();
    while (const std::uint32_t tag = in_.ReadTag()) {
      if (tag == end_tag) return absl::OkStatus();
      if (left_ == 0) return TooManyFields();
      --left_;
      if (absl::Status counted = CountInside(type, tag, depth); !counted.ok()) return counted;
    }
    const bool complete = end_tag == 0 && in_.ConsumedEntireMessage();
    return complete ? absl::OkStatus() : UnreadableFrame();
  }

 private:
  absl::Status CountInside(const Descriptor* type, std::uint32_t tag, int depth) {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_START_GROUP:
        return Count(nullptr, WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_END_GROUP),
                     depth + 1);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
        const FieldDescriptor* const field =
            type == nullptr ? nullptr : type->FindFieldByNumber(number);
        if (field != nullptr && field->type() == FieldDescriptor::TYPE_MESSAGE) {
          return CountMessage(*field->message_type(), depth);
        }
        break;
      }
      default:
        break;
    }
    return WireFormatLite::SkipField(&in_, tag) ? absl::OkStatus() : UnreadableFrame();
  }

  absl::Status CountMessage(const Descriptor& type, int depth) {
    std::uint32_t length = 0;
    constexpr std::uint32_t kMost = std::numeric_limits<int>::max();
    if (!in_.ReadVarint32(&length) || length > kMost) return UnreadableFrame();
    const auto limit = in_.PushLimit(static_cast<int>(length));
    absl::Status counted = Count(&type, 0, depth + 1);
    in_.PopLimit(limit);
    return counted;
  }

  CodedInputStream& in_;
  std::size_t left_;
};

}  // namespace

absl::Status UnreadableFrame() {
  return MakeError(Reason::kRequestInvalid,
                   "the frame is not a SessionRequest: its bytes are damaged, a text in it is "
                   "not UTF-8, or the client was built from another .proto file");
}

absl::Status CheckFrame(grpc::ByteBuffer& frame, const FrameBounds& bounds) {
  const std::size_t bytes = frame.Length();
  if (bytes > bounds.max_parsed_bytes) return TooManyFields();
  {
    grpc::ProtoBufferReader reader(&frame);
    if (!reader.status().ok()) return UnreadableFrame();
    CodedInputStream in(&reader);
    if (absl::Status counted = CountOperations(in, bounds); !counted.ok()) return counted;
  }
  // A field has two bytes at least, so a frame of the usual size needs no counting.
  const std::size_t most_fields = (bounds.max_parsed_bytes - bytes) / kFieldBytes;
  if (bytes / 2 <= most_fields) return absl::OkStatus();
  grpc::ProtoBufferReader reader(&frame);
  CodedInputStream in(&reader);
  return FieldCount(in, most_fields).Count(v1::SessionRequest::descriptor(), 0, 0);
}

}  // namespace idempotency

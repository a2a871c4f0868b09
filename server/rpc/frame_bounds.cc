#include "server/rpc/frame_bounds.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <limits>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr std::uint32_t kOperationsTag = WireFormatLite::MakeTag(
    v1::SessionRequest::kOperationsFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
// Protobuf's own limit.
constexpr int kMaxDepth = 100;

enum class Look { kWhole, kOverBound, kDamaged };

// At the top level alone: everything else is skipped.
Look CountOperations(CodedInputStream& in, std::size_t most) {
  std::size_t operations = 0;
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag == kOperationsTag && ++operations > most) return Look::kOverBound;
    if (!WireFormatLite::SkipField(&in, tag)) return Look::kDamaged;
  }
  return in.ConsumedEntireMessage() ? Look::kWhole : Look::kDamaged;
}

// Every field at every depth.
class FieldCount {
 public:
  FieldCount(CodedInputStream& in, std::size_t most) : in_(in), most_(most) {}

  // Fields up to the end of the message, or of the group that `end_tag` ends.
  // `type` is nullptr in a group: nothing of ours has any.
  Look Count(const Descriptor* type, std::uint32_t end_tag, int depth) {
    if (depth > kMaxDepth) return Look::kDamaged;
    while (const std::uint32_t tag = in_.ReadTag()) {
      if (tag == end_tag) return Look::kWhole;
      if (fields_ == most_) return Look::kOverBound;
      ++fields_;
      if (const Look counted = CountInside(type, tag, depth); counted != Look::kWhole) {
        return counted;
      }
    }
    return end_tag == 0 && in_.ConsumedEntireMessage() ? Look::kWhole : Look::kDamaged;
  }

  std::size_t fields() const { return fields_; }

 private:
  Look CountInside(const Descriptor* type, std::uint32_t tag, int depth) {
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
    return WireFormatLite::SkipField(&in_, tag) ? Look::kWhole : Look::kDamaged;
  }

  Look CountMessage(const Descriptor& type, int depth) {
    std::uint32_t length = 0;
    constexpr std::uint32_t kMost = std::numeric_limits<int>::max();
    if (!in_.ReadVarint32(&length) || length > kMost) return Look::kDamaged;
    const auto limit = in_.PushLimit(static_cast<int>(length));
    const Look counted = Count(&type, 0, depth + 1);
    in_.PopLimit(limit);
    return counted;
  }

  CodedInputStream& in_;
  const std::size_t most_;
  std::size_t fields_ = 0;
};

struct Fields {
  Look look;
  std::size_t count;
};

Fields CountFields(grpc::ByteBuffer& message, const Descriptor& type, std::size_t most) {
  grpc::ProtoBufferReader reader(&message);
  if (!reader.status().ok()) return {Look::kDamaged, 0};
  CodedInputStream in(&reader);
  FieldCount fields(in, most);
  const Look look = fields.Count(&type, 0, 0);
  return {look, fields.fields()};
}

// A field has two bytes at least, so a message of the usual size needs no counting.
bool MayHaveMoreFields(std::size_t bytes, std::size_t most) { return bytes / 2 > most; }

absl::Status TooManyOperations(const FrameBounds& bounds) {
  return InvalidField("operations", absl::StrCat("must be at most ", bounds.max_operations,
                                                 " in one frame: send them in several"));
}

absl::Status TooManyFields() {
  return InvalidField("operations",
                      "have more fields than one frame may: send them in several frames");
}

absl::Status TooLargeRequest() {
  return InvalidField("request", "has more fields than one request may");
}

absl::Status Unreadable(std::string_view what) {
  return MakeError(Reason::kRequestInvalid,
                   absl::StrCat(AbslView(what),
                                ": its bytes are damaged, a text in it is not UTF-8, or the client "
                                "was built from another .proto file"));
}

}  // namespace

absl::Status UnreadableFrame() { return Unreadable("the frame is not a SessionRequest"); }

absl::Status UnreadableRequest() {
  return Unreadable("the request is not a message of this method");
}

absl::Status CheckFrame(grpc::ByteBuffer& frame, const FrameBounds& bounds) {
  const std::size_t bytes = frame.Length();
  if (bytes > bounds.max_parsed_bytes) return TooManyFields();
  grpc::ProtoBufferReader reader(&frame);
  if (!reader.status().ok()) return UnreadableFrame();
  CodedInputStream in(&reader);
  Look look = CountOperations(in, bounds.max_operations);
  if (look == Look::kOverBound) return TooManyOperations(bounds);
  const std::size_t most_fields = (bounds.max_parsed_bytes - bytes) / kFieldBytes;
  if (look == Look::kWhole && MayHaveMoreFields(bytes, most_fields)) {
    look = CountFields(frame, *v1::SessionRequest::descriptor(), most_fields).look;
    if (look == Look::kOverBound) return TooManyFields();
  }
  return look == Look::kWhole ? absl::OkStatus() : UnreadableFrame();
}

absl::StatusOr<std::size_t> ParsedBytes(grpc::ByteBuffer& request, const Descriptor& type,
                                        std::size_t max_parsed_bytes) {
  // A call may have no message.
  if (!request.Valid()) return UnreadableRequest();
  const std::size_t bytes = request.Length();
  if (bytes > max_parsed_bytes) return TooLargeRequest();
  const std::size_t most_fields = (max_parsed_bytes - bytes) / kFieldBytes;
  if (bytes < kCountedRequestBytes && !MayHaveMoreFields(bytes, most_fields)) return bytes;
  const Fields fields = CountFields(request, type, most_fields);
  if (fields.look == Look::kOverBound) return TooLargeRequest();
  if (fields.look == Look::kDamaged) return UnreadableRequest();
  return bytes + fields.count * kFieldBytes;
}

}  // namespace idempotency::internal

#include "server/rpc/frame_bounds.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/field_memory.h"
#include "grpc_idempotency/errors.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using Look = FieldMemory::Look;

constexpr std::uint32_t kOperationsTag = WireFormatLite::MakeTag(
    v1::SessionRequest::kOperationsFieldNumber, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

// At the top level alone: everything else is skipped.
Look CountOperations(CodedInputStream& in, std::size_t most) {
  std::size_t operations = 0;
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag == kOperationsTag && ++operations > most) return Look::kOverBound;
    if (!WireFormatLite::SkipField(&in, tag)) return Look::kDamaged;
  }
  return in.ConsumedEntireMessage() ? Look::kWhole : Look::kDamaged;
}

// Messages of ours are small: kFieldBytes has room for them.
FieldMemory Measure(grpc::ByteBuffer& message, const Descriptor& type, std::size_t most) {
  grpc::ProtoBufferReader reader(&message);
  if (!reader.status().ok()) return {Look::kDamaged, 0};
  CodedInputStream in(&reader);
  return MeasureFields(in, type, most, [](const Descriptor&) { return std::size_t{0}; });
}

// A field has two bytes at least, so a message of the usual size needs no counting.
bool MayTakeMore(std::size_t bytes, std::size_t most) { return bytes / 2 > most / kFieldBytes; }

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
  const std::size_t most = bounds.max_parsed_bytes - bytes;
  if (look == Look::kWhole && MayTakeMore(bytes, most)) {
    look = Measure(frame, *v1::SessionRequest::descriptor(), most).look;
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
  const std::size_t most = max_parsed_bytes - bytes;
  if (bytes < kCountedRequestBytes && !MayTakeMore(bytes, most)) return bytes;
  const FieldMemory fields = Measure(request, type, most);
  if (fields.look == Look::kOverBound) return TooLargeRequest();
  if (fields.look == Look::kDamaged) return UnreadableRequest();
  return bytes + fields.bytes;
}

}  // namespace idempotency::internal

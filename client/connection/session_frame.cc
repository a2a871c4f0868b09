#include "client/connection/session_frame.h"

#include <array>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Duration;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;

// A short piece of the encoding, built on the stack.
class Piece {
 public:
  void Varint(int field, std::uint64_t value) {
    Tag(field, WireFormatLite::WIRETYPE_VARINT);
    at_ = CodedOutputStream::WriteVarint64ToArray(value, at_);
  }
  void Length(int field, std::size_t bytes) {
    Tag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
    at_ = CodedOutputStream::WriteVarint64ToArray(bytes, at_);
  }
  void Nested(int field, const Piece& piece) {
    Length(field, piece.size());
    at_ = std::copy(piece.bytes_.begin(), piece.bytes_.begin() + piece.size(), at_);
  }

  std::size_t size() const { return at_ - bytes_.data(); }
  void AppendTo(std::string& text) const {
    text.append(reinterpret_cast<const char*>(bytes_.data()), size());
  }

 private:
  void Tag(int field, WireFormatLite::WireType type) {
    at_ = CodedOutputStream::WriteTagToArray(WireFormatLite::MakeTag(field, type), at_);
  }

  // An id takes 11, a timeout 18.
  std::array<std::uint8_t, 40> bytes_;
  std::uint8_t* at_ = bytes_.data();
};

Piece Encode(std::chrono::nanoseconds duration) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  Piece piece;
  piece.Varint(Duration::kSecondsFieldNumber, seconds.count());
  piece.Varint(Duration::kNanosFieldNumber, (duration - seconds).count());
  return piece;
}

}  // namespace

void SessionFrame::Add(std::uint64_t id, Timeout timeout, std::string_view body) {
  Piece head;
  head.Varint(v1::SessionOperation::kIdFieldNumber, id);
  if (timeout) head.Nested(v1::SessionOperation::kTimeoutFieldNumber, Encode(*timeout));
  Piece operation;
  operation.Length(v1::SessionRequest::kOperationsFieldNumber, head.size() + body.size());
  operation.AppendTo(bytes_);
  head.AppendTo(bytes_);
  bytes_.append(body);
}

void SessionFrame::AddCancel(std::uint64_t id) {
  Piece cancel;
  cancel.Length(v1::SessionOperation::kCancelFieldNumber, 0);
  std::string body;
  cancel.AppendTo(body);
  Add(id, std::nullopt, body);
}

}  // namespace idempotency::internal

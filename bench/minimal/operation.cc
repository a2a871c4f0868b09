#include "bench/minimal/operation.h"

namespace idempotency::internal::bench {

grpc::ByteBuffer FrameWriter::Take() {
  grpc::ByteBuffer frame = BufferOf(bytes_);
  bytes_.clear();
  return frame;
}

FrameReader::FrameReader(const grpc::ByteBuffer& frame) : rest_(BytesOf(frame, slice_)) {}

void WriteOperation(std::uint64_t cookie, const Operation& operation, FrameWriter& frame) {
  frame.Number(cookie);
  frame.Number(operation.kind);
  frame.Number(operation.id.bytes());
  frame.Number(operation.token);
  if (operation.kind == Operation::Kind::kReserve) {
    frame.Number(operation.expires_at);
    frame.Number(operation.fingerprint);
  } else {
    frame.Text(operation.reply);
  }
}

std::uint64_t ReadOperation(FrameReader& frame, Operation& operation) {
  const auto cookie = frame.Number<std::uint64_t>();
  operation.kind = frame.Number<Operation::Kind>();
  operation.id = RecordId(frame.Number<RecordId::Bytes>());
  operation.token = frame.Number<std::int64_t>();
  if (operation.kind == Operation::Kind::kReserve) {
    operation.expires_at = frame.Number<std::int64_t>();
    operation.fingerprint = frame.Number<Sha256Digest>();
  } else {
    operation.reply = frame.Text();
  }
  return cookie;
}

void WriteAnswer(std::uint64_t cookie, const Operation& operation, FrameWriter& frame) {
  frame.Number(cookie);
  frame.Number(operation.verdict);
  if (operation.verdict != Operation::Verdict::kReplay) return;
  frame.Number(operation.expires_at);
  frame.Text(operation.reply);
}

void ReadAnswer(FrameReader& frame, Operation& operation) {
  operation.verdict = frame.Number<Operation::Verdict>();
  if (operation.verdict != Operation::Verdict::kReplay) return;
  operation.expires_at = frame.Number<std::int64_t>();
  operation.reply = frame.Text();
}

std::string_view BytesOf(const grpc::ByteBuffer& message, grpc::Slice& slice) {
  if (!message.TrySingleSlice(&slice).ok() && !message.DumpToSingleSlice(&slice).ok()) {
    Die("a message cannot be read");
  }
  return {reinterpret_cast<const char*>(slice.begin()), slice.size()};
}

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace idempotency::internal::bench

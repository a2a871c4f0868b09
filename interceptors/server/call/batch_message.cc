#include "interceptors/server/call/batch_message.h"

#include <grpcpp/support/slice.h>

#include <vector>

namespace idempotency::internal {
namespace {

void Append(const grpc::Slice& slice, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
}

}  // namespace

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  // Most messages are one slice, which needs no vector.
  grpc::Slice single;
  if (buffer.TrySingleSlice(&single).ok()) {
    Append(single, bytes);
    return bytes;
  }
  bytes.reserve(buffer.Length());
  std::vector<grpc::Slice> slices;
  if (buffer.Dump(&slices).ok()) {
    for (const grpc::Slice& slice : slices) Append(slice, bytes);
  }
  return bytes;
}

void DropMessage(grpc::experimental::InterceptorBatchMethods& batch) {
  // In this order nothing is serialised.
  batch.ModifySendMessage(nullptr);
  batch.GetSerializedSendMessage()->Clear();
}

}  // namespace idempotency::internal

#include "interceptors/client/request_key_field.h"

#include <grpcpp/support/slice.h>

#include <memory>
#include <string>
#include <vector>

#include "google/protobuf/message.h"

#include "core/declared_policy.h"
#include "core/key_field.h"

namespace idempotency::internal {
namespace {

std::string BytesOf(const grpc::ByteBuffer& buffer) {
  std::string bytes;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return bytes;
  bytes.reserve(buffer.Length());
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

bool LeavesKeyFieldEmpty(const google::protobuf::MethodDescriptor& method,
                         const grpc::ByteBuffer* request) {
  if (request == nullptr) return false;
  const absl::StatusOr<v1::Policy> declared = DeclaredPolicy(method.options());
  if (!declared.ok()) return false;
  const absl::StatusOr<KeyField> field = KeyField::Resolve(method, declared->key_field());
  if (!field.ok()) return false;
  // The generated type: nullptr in a program that has only the descriptor.
  const google::protobuf::Message* prototype =
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(method.input_type());
  if (prototype == nullptr) return false;
  const std::unique_ptr<google::protobuf::Message> message(prototype->New());
  return message->ParsePartialFromString(BytesOf(*request)) && field->Read(*message).empty();
}

}  // namespace idempotency::internal

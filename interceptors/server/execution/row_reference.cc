#include "interceptors/server/execution/row_reference.h"

#include <string>
#include <string_view>
#include <utility>

namespace idempotency::internal {
namespace {

constexpr std::string_view kRowReference = "idempotency-row-reference-bin";

}  // namespace

void AddRowReference(const v1::Reference& reference, v1::Reply& reply) {
  v1::MetadataEntry& entry = *reply.add_trailing_metadata();
  entry.set_key(std::string(kRowReference));
  entry.set_value(reference.SerializeAsString());
}

std::optional<v1::Reference> TakeRowReference(v1::Reply& reply) {
  std::optional<v1::Reference> reference;
  google::protobuf::RepeatedPtrField<v1::MetadataEntry> others;
  for (v1::MetadataEntry& entry : *reply.mutable_trailing_metadata()) {
    if (entry.key() != kRowReference) {
      *others.Add() = std::move(entry);
    } else if (v1::Reference parsed; parsed.ParseFromString(entry.value())) {
      reference = std::move(parsed);
    }
  }
  reply.mutable_trailing_metadata()->Swap(&others);
  return reference;
}

}  // namespace idempotency::internal

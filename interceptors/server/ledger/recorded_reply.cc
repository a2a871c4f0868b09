#include "grpc_idempotency/ledger/recorded_reply.h"

#include <algorithm>
#include <string>

#include "core/record_metadata_names.h"
#include "core/utf8.h"
#include "grpc_idempotency/reply.h"

namespace idempotency {

using internal::IsRecordMetadata;
using internal::ToUtf8;

namespace {

// As in the capturing interceptor: a handler that forwards another service's metadata must not
// record that service's record as its own.
void Add(std::string_view key, std::string_view value,
         google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata) {
  if (IsRecordMetadata(key)) return;
  v1::MetadataEntry& entry = *metadata.Add();
  entry.set_key(std::string(key));
  entry.set_value(std::string(value));
}

}  // namespace

RecordedReply::RecordedReply(const google::protobuf::MessageLite& message) {
  // Exactly as in the capturing interceptor.
  reply_.set_body(message.SerializePartialAsString());
}

RecordedReply::RecordedReply(const grpc::Status& status) {
  reply_.set_code(static_cast<int>(status.error_code()));
  reply_.set_message(ToUtf8(status.error_message()));
  reply_.set_details(status.error_details());
}

RecordedReply& RecordedReply::AddStreamMessage(const google::protobuf::MessageLite& message) {
  reply_.add_stream(message.SerializePartialAsString());
  return *this;
}

RecordedReply& RecordedReply::AddInitialMetadata(std::string_view key, std::string_view value) {
  Add(key, value, *reply_.mutable_initial_metadata());
  return *this;
}

RecordedReply& RecordedReply::AddTrailingMetadata(std::string_view key, std::string_view value) {
  Add(key, value, *reply_.mutable_trailing_metadata());
  return *this;
}

bool SameOutcome(const v1::Reply& a, const v1::Reply& b) {
  if (a.content() == v1::REPLY_CONTENT_STATUS_ONLY ||
      b.content() == v1::REPLY_CONTENT_STATUS_ONLY) {
    return a.code() == b.code() && WithoutContent(a).message() == WithoutContent(b).message();
  }
  return a.code() == b.code() && a.message() == b.message() && a.details() == b.details() &&
         a.has_body() == b.has_body() && a.body() == b.body() &&
         std::equal(a.stream().begin(), a.stream().end(), b.stream().begin(), b.stream().end());
}

}  // namespace idempotency

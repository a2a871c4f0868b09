#include "ctl/record_selector.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "core/wire_time.h"
#include "grpc_idempotency/limits.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {

absl::Status ValidateRecordId(absl::string_view operand) {
  if (Uuid::Parse(std::string_view(operand.data(), operand.size())).has_value()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "RECORD_ID must be a UUID, as in the metadata idempotency-record of a reply");
}

void RecordSelector::AddTo(FlagSet& flags) {
  flags.AddName("namespace", "NAME", &namespace_, "Of the record, if it is not given by its id.");
  flags.AddName("scope", "NAME", &scope_, "The same.");
  flags.AddName("operation", "NAME", &operation_,
                "The same: for gRPC the full method, /payments.v1.Payments/Charge.");
  flags.AddName("key", "KEY", &key_text_, "The same: the idempotency key.");
}

absl::Status RecordSelector::Set(absl::string_view operand) {
  key_.set_namespace_(namespace_);
  key_.set_scope(scope_);
  key_.set_operation(operation_);
  key_.set_key(key_text_);
  const bool has_part =
      !namespace_.empty() || !scope_.empty() || !operation_.empty() || !key_text_.empty();
  if (!operand.empty()) {
    id_ = std::string(operand);
    if (has_part) {
      return absl::InvalidArgumentError("give RECORD_ID, or the four parts of a key: not both");
    }
    return ValidateRecordId(operand);
  }
  if (namespace_.empty() || scope_.empty() || operation_.empty() || key_text_.empty()) {
    return absl::InvalidArgumentError(
        "give RECORD_ID, or all of --namespace, --scope, --operation and --key");
  }
  return absl::OkStatus();
}

v1::GetRequest RecordSelector::ToRequest(v1::RecordView view) const {
  v1::GetRequest request;
  if (id_.empty()) {
    *request.mutable_record_key() = key_;
  } else {
    request.set_record_id(id_);
  }
  request.set_view(view);
  return request;
}

void RecordFilter::AddTo(FlagSet& flags) {
  flags.AddName("namespace", "NAME", &namespace_, "The namespace of the records. Required.");
  flags.AddName("scope", "NAME", &scope_, "Only those of this scope.");
  flags.AddName("operation", "NAME", &operation_, "Only those of this operation.");
  flags.AddName("state", "STATE", &state_,
                "Only those in this state: reserved, completed, released or unknown.");
  flags.AddDuration("older_than", &older_than_, absl::ZeroDuration(), limits::kMaxRetention,
                    "Only those that were first reserved longer ago, by this machine's clock.");
  flags.AddDuration("newer_than", &newer_than_, absl::ZeroDuration(), limits::kMaxRetention,
                    "Only those that were first reserved less long ago; 0s: all.");
}

absl::Status RecordFilter::Validate() {
  if (namespace_.empty()) {
    return absl::InvalidArgumentError("--namespace is missing; write --namespace=NAME");
  }
  if (state_.empty()) return absl::OkStatus();
  const std::string name = absl::StrCat("RECORD_STATE_", absl::AsciiStrToUpper(state_));
  if (!v1::RecordState_Parse(name, &wanted_) || wanted_ == v1::RECORD_STATE_UNSPECIFIED) {
    return absl::InvalidArgumentError("--state must be reserved, completed, released or unknown");
  }
  return absl::OkStatus();
}

v1::ListRequest RecordFilter::ToRequest(absl::Time now) const {
  v1::ListRequest request;
  request.set_namespace_(namespace_);
  request.set_scope(scope_);
  request.set_operation(operation_);
  request.set_state(wanted_);
  if (older_than_ > absl::ZeroDuration()) {
    ToWire(now - older_than_, *request.mutable_created_before());
  }
  if (newer_than_ > absl::ZeroDuration()) {
    ToWire(now - newer_than_, *request.mutable_created_after());
  }
  return request;
}

}  // namespace idempotency::internal

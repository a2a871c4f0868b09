#include "interceptors/server/request/request_identity.h"

#include <memory>
#include <string_view>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/idempotency_key.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/request/key_check.h"
#include "interceptors/server/request/reserve_request.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

// Nearly always one value, or none.
using Values = absl::InlinedVector<std::string_view, 1>;

Values ValuesOf(const grpc::ServerContextBase& context, std::string_view name) {
  Values values;
  const auto range = context.client_metadata().equal_range({name.data(), name.size()});
  for (auto entry = range.first; entry != range.second; ++entry) {
    values.emplace_back(entry->second.data(), entry->second.size());
  }
  return values;
}

}  // namespace

absl::StatusOr<RequestIdentity> RequestIdentity::Make(const MethodDescriptor& method,
                                                      const MethodPolicy& policy,
                                                      const GuardOptions& options,
                                                      std::shared_ptr<GuardLog> log) {
  RequestIdentity identity(absl::StrCat("/", method.service()->full_name(), "/", method.name()),
                           policy, options, std::move(log));
  if (!policy.key_field.empty()) {
    absl::StatusOr<KeyField> key_field = KeyField::Resolve(method, policy.key_field);
    if (!key_field.ok()) return key_field.status();
    identity.key_field_ = *std::move(key_field);
  }
  return identity;
}

RequestIdentity::RequestIdentity(std::string path, const MethodPolicy& policy,
                                 const GuardOptions& options, std::shared_ptr<GuardLog> log)
    : path_(std::move(path)),
      options_(options),
      log_(std::move(log)),
      metadata_names_(policy.fingerprint_metadata) {
  const auto config = options.methods.find(path_);
  if (config != options.methods.end()) config_ = config->second;
  operation_ = config_.operation.empty() ? path_ : config_.operation;
}

absl::StatusOr<std::string> RequestIdentity::KeyOf(const grpc::ServerContextBase& context,
                                                   const Message& request) const {
  const Values values = ValuesOf(context, kKeyMetadata);
  const std::string field = key_field_.has_value() ? key_field_->Read(request) : "";
  absl::StatusOr<std::string> key = key_field_.has_value()
                                        ? ParseIdempotencyKey(values, {key_field_->name(), field})
                                        : ParseIdempotencyKey(values);
  if (!key.ok() || !config_.key_validator) return key;
  const absl::Status accepted = CallApplication(
      *log_, path_, "the key validator", [&] { return CheckKey(config_.key_validator, *key); });
  if (!accepted.ok()) return accepted;
  return key;
}

absl::Status RequestIdentity::Authorise(const grpc::ServerContextBase& context,
                                        const Message& request) const {
  if (!config_.authoriser) return absl::OkStatus();
  return CallApplication(*log_, path_, "the authoriser",
                         [&] { return config_.authoriser(context, request); });
}

absl::StatusOr<std::vector<Fingerprint>> RequestIdentity::FingerprintsOf(
    const grpc::ServerContextBase& context, const Message& request) const {
  std::unique_ptr<Message> copy;
  if (config_.normaliser) {
    copy.reset(request.New());
    copy->CopyFrom(request);
    const absl::Status normalised =
        CallApplication(*log_, path_, "the normaliser", [&] { return config_.normaliser(*copy); });
    if (!normalised.ok()) return normalised;
  }
  const FingerprintInput input{operation_, copy != nullptr ? *copy : request,
                               key_field_.has_value() ? key_field_->path() : FieldPath(),
                               MetadataOf(context)};
  return RequestFingerprints(*log_, options_.fingerprint_algorithms, input);
}

FingerprintInput::Metadata RequestIdentity::MetadataOf(
    const grpc::ServerContextBase& context) const {
  FingerprintInput::Metadata metadata;
  for (const std::string& name : metadata_names_) {
    const Values values = ValuesOf(context, name);
    if (!values.empty()) {
      metadata.emplace(name, std::vector<std::string_view>(values.begin(), values.end()));
    }
  }
  return metadata;
}

}  // namespace idempotency::internal

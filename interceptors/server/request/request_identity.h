#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_REQUEST_IDENTITY_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_REQUEST_IDENTITY_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

#include "core/key_field.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/fingerprint_input.h"
#include "grpc_idempotency/server_guard/guard_options.h"
#include "interceptors/server/log/guard_log.h"

namespace idempotency::internal {

// Identifies the calls of one method: computes the key of a call and the fingerprints of its
// request. Immutable.
class RequestIdentity {
 public:
  // INVALID_ARGUMENT, whose message names the method, for a key field that cannot be used.
  // `options` outlives it.
  static absl::StatusOr<RequestIdentity> Make(const google::protobuf::MethodDescriptor& method,
                                              const MethodPolicy& policy,
                                              const GuardOptions& options,
                                              std::shared_ptr<GuardLog> log = GuardLog::Default());

  // The operation of the method's records, without a host: that of its settings, or else its full
  // name.
  const std::string& operation() const { return operation_; }

  // The key from the policy's field and from the metadata.
  //   KEY_MISSING  there is no key
  //   KEY_INVALID  malformed; or both present and different; or refused by the validator
  absl::StatusOr<std::string> KeyOf(const grpc::ServerContextBase& context,
                                    const google::protobuf::Message& request) const;

  // The authoriser's decision; OK if the method has none. INTERNAL if the application's code
  // failed.
  absl::Status Authorise(const grpc::ServerContextBase& context,
                         const google::protobuf::Message& request) const;

  // The fingerprints of the normalised request, one for each algorithm of the options. The
  // normaliser's error, or INTERNAL if the application's code failed.
  absl::StatusOr<std::vector<Fingerprint>> FingerprintsOf(
      const grpc::ServerContextBase& context, const google::protobuf::Message& request) const;

 private:
  RequestIdentity(std::string path, const MethodPolicy& policy, const GuardOptions& options,
                  std::shared_ptr<GuardLog> log);

  FingerprintInput::Metadata MetadataOf(const grpc::ServerContextBase& context) const;

  std::string path_;
  const GuardOptions& options_;
  std::shared_ptr<GuardLog> log_;
  MethodConfig config_;
  std::string operation_;
  std::optional<KeyField> key_field_;
  std::vector<std::string> metadata_names_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_REQUEST_REQUEST_IDENTITY_H_

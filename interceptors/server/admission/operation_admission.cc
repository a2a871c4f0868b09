#include "interceptors/server/admission/operation_admission.h"

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "grpc_idempotency/fingerprint_input.h"
#include "grpc_idempotency/record_key.h"
#include "interceptors/server/request/reserve_request.h"

namespace idempotency::internal {
namespace {

absl::StatusOr<std::shared_ptr<v1::ReserveRequest>> ReserveRequestFor(
    const GuardedOperation& operation, const BeginCall& call,
    const google::protobuf::Message& request) {
  const GuardOptions& options = operation.options;
  const absl::Status valid = ValidateBeginCall(call, options);
  if (!valid.ok()) return valid;
  absl::StatusOr<std::vector<Fingerprint>> fingerprints = RequestFingerprints(
      *operation.log, options.fingerprint_algorithms, FingerprintInput{call.operation, request});
  if (!fingerprints.ok()) return fingerprints.status();

  std::shared_ptr<v1::ReserveRequest> reserve_request =
      MakeReserveRequest({options.name_space, call.scope, call.operation, NormaliseKey(call.key)},
                         *std::move(fingerprints));
  reserve_request->mutable_labels()->insert(call.labels.begin(), call.labels.end());
  return reserve_request;
}

}  // namespace

void OperationAdmission::Begin(GuardedOperation operation, const BeginCall& call,
                               const google::protobuf::Message& request, Done done) {
  absl::StatusOr<std::shared_ptr<v1::ReserveRequest>> reserve_request =
      ReserveRequestFor(operation, call, request);
  if (!reserve_request.ok()) {
    done(reserve_request.status());
    return;
  }
  std::string record_id = RecordIdFor(FromProto((*reserve_request)->record_key())).ToString();
  const auto shared = std::make_shared<const GuardedOperation>(std::move(operation));
  // The request that a recovery handler gets must live until the decision, and not longer: after
  // it the caller may destroy the request's factory, which a copy of a dynamic message refers to.
  std::unique_ptr<google::protobuf::Message> shown;
  if (shared->recovery) {
    shown.reset(request.New());
    shown->CopyFrom(request);
  }
  const google::protobuf::Message* const shown_request = shown.get();
  Admission::Admit(
      shared, *std::move(reserve_request), VerdictDeadline(*shared, call.deadline),
      [record_id = std::move(record_id), shown = std::move(shown),
       done = std::move(done)](Admission::Decision decision) mutable {
        shown = nullptr;
        done(ToBegun(std::move(record_id), std::move(decision)));
      },
      shown_request);
}

absl::StatusOr<BegunOperation> OperationAdmission::ToBegun(std::string record_id,
                                                           Admission::Decision decision) {
  if (auto* granted = std::get_if<Admission::Granted>(&decision)) {
    return BegunOperation(std::move(record_id), std::move(granted->execution));
  }
  if (const auto* replayed = std::get_if<Admission::Replayed>(&decision)) {
    return BegunOperation(std::move(record_id), replayed->reply.Whole());
  }
  return std::get<Admission::Refused>(decision).why;
}

}  // namespace idempotency::internal

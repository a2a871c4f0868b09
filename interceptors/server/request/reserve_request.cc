#include "interceptors/server/request/reserve_request.h"

#include <string>

#include "core/absl_view.h"
#include "interceptors/server/request/application_call.h"

namespace idempotency::internal {

absl::StatusOr<std::vector<Fingerprint>> RequestFingerprints(
    GuardLog& log, absl::Span<const FingerprintAlgorithm> algorithms,
    const FingerprintInput& input) {
  return CallApplication(
      log, input.method, "the fingerprint's computation",
      [&]() -> absl::StatusOr<std::vector<Fingerprint>> {
        std::vector<Fingerprint> fingerprints = ComputeFingerprints(algorithms, input);
        const absl::Status valid = ValidateFingerprints(fingerprints);
        if (valid.ok()) return fingerprints;
        log.Error(LogEvent::kInvalidFingerprint, AbslView(input.method),
                  ": a fingerprint cannot be used: ", valid.message());
        return absl::InternalError("the fingerprint's computation failed; nothing was run");
      });
}

v1::ReserveRequest MakeReserveRequest(const RecordKey& record_key,
                                      absl::Span<const Fingerprint> fingerprints) {
  v1::ReserveRequest request;
  *request.mutable_record_key() = ToProto(record_key);
  for (const Fingerprint& fingerprint : fingerprints) {
    *request.add_fingerprints() = ToProto(fingerprint);
  }
  return request;
}

}  // namespace idempotency::internal

#include "interceptors/server/request/request_fingerprints.h"

#include <spdlog/spdlog.h>

#include <string>

#include "interceptors/server/request/application_call.h"

namespace idempotency {

absl::StatusOr<std::vector<Fingerprint>> RequestFingerprints(
    absl::Span<const FingerprintAlgorithm> algorithms, const FingerprintInput& input) {
  return CallApplication(
      input.method, "the fingerprint's computation",
      [&]() -> absl::StatusOr<std::vector<Fingerprint>> {
        std::vector<Fingerprint> fingerprints = ComputeFingerprints(algorithms, input);
        const absl::Status valid = ValidateFingerprints(fingerprints);
        if (valid.ok()) return fingerprints;
        spdlog::error("{}: a fingerprint cannot be used: {}", input.method,
                      std::string(valid.message()));
        return absl::InternalError("the fingerprint's computation failed; nothing was run");
      });
}

}  // namespace idempotency

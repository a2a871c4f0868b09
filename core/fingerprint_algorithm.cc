#include "grpc_idempotency/fingerprint_algorithm.h"

#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "core/canonical_form.h"
#include "core/length_prefix.h"
#include "core/sha256.h"
#include "grpc_idempotency/limits.h"

namespace idempotency {

using internal::AppendBigEndian32;
using internal::AppendCanonicalForm;
using internal::Sha256;
using internal::Sha256Digest;

namespace {

constexpr std::uint32_t kVersion1 = 1;
// Ends the canonical form where metadata follows: no field has the number 0, so
// no canonical form continues with it.
constexpr char kMetadataMark = '\0';

void AppendNumber(std::size_t number, std::string& out) {
  AppendBigEndian32(static_cast<std::uint32_t>(number), out);
}

void AppendText(std::string_view text, std::string& out) {
  AppendNumber(text.size(), out);
  out.append(text);
}

void AppendMetadata(const FingerprintInput::Metadata& metadata, std::string& out) {
  if (metadata.empty()) return;
  out.push_back(kMetadataMark);
  for (const auto& [name, values] : metadata) {
    AppendText(name, out);
    AppendNumber(values.size(), out);
    for (const std::string_view value : values) AppendText(value, out);
  }
}

std::string DigestV1(const FingerprintInput& input) {
  std::string bytes;
  bytes.reserve(4 + input.method.size() + input.request.ByteSizeLong());
  AppendText(input.method, bytes);
  if (!AppendCanonicalForm(input.request, input.key_field, bytes)) return "";
  AppendMetadata(input.metadata, bytes);
  const Sha256Digest digest = Sha256(bytes);
  return std::string(digest.begin(), digest.end());
}

}  // namespace

Fingerprint FingerprintV1(const FingerprintInput& input) { return {kVersion1, DigestV1(input)}; }

FingerprintAlgorithm FingerprintAlgorithm::V1() { return {kVersion1, DigestV1}; }

absl::Status ValidateFingerprintAlgorithms(absl::Span<const FingerprintAlgorithm> algorithms) {
  if (algorithms.empty() || algorithms.size() > limits::kMaxFingerprints) {
    return absl::InvalidArgumentError(
        absl::StrCat("must be 1-", limits::kMaxFingerprints, " algorithms"));
  }
  std::set<std::uint32_t> versions;
  for (const FingerprintAlgorithm& algorithm : algorithms) {
    if (algorithm.version == 0) return absl::InvalidArgumentError("has a version 0");
    if (algorithm.digest == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("has no function for version ", algorithm.version));
    }
    if (!versions.insert(algorithm.version).second) {
      return absl::InvalidArgumentError(absl::StrCat("has version ", algorithm.version, " twice"));
    }
  }
  return absl::OkStatus();
}

std::vector<Fingerprint> ComputeFingerprints(absl::Span<const FingerprintAlgorithm> algorithms,
                                             const FingerprintInput& input) {
  std::vector<Fingerprint> fingerprints;
  for (const FingerprintAlgorithm& algorithm : algorithms) {
    fingerprints.push_back({algorithm.version, algorithm.digest(input)});
  }
  return fingerprints;
}

}  // namespace idempotency

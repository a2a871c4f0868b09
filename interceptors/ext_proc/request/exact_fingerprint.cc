#include "interceptors/ext_proc/request/exact_fingerprint.h"

#include <cstdint>
#include <string>

#include "core/length_prefix.h"
#include "core/sha256.h"

namespace idempotency::internal {
namespace {

constexpr std::uint32_t kVersion2 = 2;

}  // namespace

Fingerprint ExactFingerprint(absl::Span<const std::string_view> parts) {
  std::string bytes;
  for (const std::string_view part : parts) AppendPart(part, bytes);
  const Sha256Digest digest = Sha256(bytes);
  return {kVersion2, std::string(digest.begin(), digest.end())};
}

}  // namespace idempotency::internal

#include "server/store/audit_hmac.h"

#include <algorithm>
#include <cstddef>

#include "core/length_prefix.h"

namespace idempotency::internal {
namespace {

// Of SHA-256.
constexpr std::size_t kBlockBytes = 64;

}  // namespace

Sha256Digest AuditHmac(std::string_view audit_key, const RecordKey& key) {
  std::string message;
  for (const std::string* const part : {&key.name_space, &key.scope, &key.operation, &key.key}) {
    AppendPart(*part, message);
  }
  return HmacSha256(audit_key, message);
}

Sha256Digest AuditHmacFrom(std::string_view stored) {
  Sha256Digest hmac{};
  std::copy_n(stored.begin(), std::min(stored.size(), hmac.size()), hmac.begin());
  return hmac;
}

HmacPads HmacPadsOf(std::string_view key) {
  std::string block(key);
  block.resize(kBlockBytes, '\0');
  HmacPads pads{block, block};
  for (char& c : pads.inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : pads.outer) c = static_cast<char>(c ^ 0x5C);
  return pads;
}

}  // namespace idempotency::internal

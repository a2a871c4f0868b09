#include "tests/chaos/workload/reply_digest.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "core/length_prefix.h"
#include "core/sha256.h"

namespace idempotency::internal::testing {

std::string Digest(std::string_view bytes) {
  const Sha256Digest digest = Sha256(bytes);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest.data()), 8));
}

std::string ReplyDigest(int code, std::string_view message, std::string_view body) {
  std::string parts;
  AppendPart(absl::StrCat(code), parts);
  AppendPart(message, parts);
  AppendPart(body, parts);
  return Digest(parts);
}

}  // namespace idempotency::internal::testing

#ifndef IDEMPOTENCY_SERVER_TESTING_TEST_KEY_RING_H_
#define IDEMPOTENCY_SERVER_TESTING_TEST_KEY_RING_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/sha256.h"
#include "server/sealing/key_ring.h"

namespace idempotency::internal {

// A key of a ring's file, whose secret depends on `seed` alone; `seed` is the id if it is 0.
inline std::string TestKey(std::uint32_t id, absl::Time seals_from, std::uint32_t seed = 0) {
  const Sha256Digest secret = Sha256(absl::StrCat("test key ", seed == 0 ? id : seed));
  const std::string time = absl::FormatTime(absl::RFC3339_full, seals_from, absl::UTCTimeZone());
  return absl::StrCat("keys {\n  id: ", id, "\n  secret: \"",
                      absl::Base64Escape(absl::string_view(
                          reinterpret_cast<const char*>(secret.data()), secret.size())),
                      "\"\n  created: \"", time, "\"\n}\n");
}

// The ring of such keys.
inline std::shared_ptr<const KeyRing> TestKeyRing(const std::string& text) {
  return KeyRing::Parse(text).value();
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_TEST_KEY_RING_H_

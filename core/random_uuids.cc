#include "core/random_uuids.h"

#include <openssl/rand.h>

#include <cstdint>
#include <cstdlib>

namespace idempotency::internal {

std::vector<Uuid> RandomUuids(std::size_t count) {
  std::vector<Uuid::Bytes> random(count);
  if (count == 0) return {};
  if (RAND_bytes(random.front().data(), static_cast<int>(count * sizeof(Uuid::Bytes))) != 1) {
    std::abort();
  }
  std::vector<Uuid> uuids;
  uuids.reserve(count);
  for (Uuid::Bytes& bytes : random) {
    bytes[6] = static_cast<std::uint8_t>((bytes[6] & 0x0F) | 0x40);  // the version
    bytes[8] = static_cast<std::uint8_t>((bytes[8] & 0x3F) | 0x80);  // the variant
    uuids.emplace_back(bytes);
  }
  return uuids;
}

}  // namespace idempotency::internal

#ifndef IDEMPOTENCY_CORE_LENGTH_PREFIX_H_
#define IDEMPOTENCY_CORE_LENGTH_PREFIX_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::internal {

// Adds `value` as 4 bytes, big-endian: the encoding of lengths in hashed data.
void AppendBigEndian32(std::uint32_t value, std::string& out);
// The first 4 bytes as such a number; `bytes` has them.
std::uint32_t ReadBigEndian32(std::string_view bytes);
// Adds `part` after its length, so that no two lists of parts look alike.
void AppendPart(std::string_view part, std::string& out);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_LENGTH_PREFIX_H_

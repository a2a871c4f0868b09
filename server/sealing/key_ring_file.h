#ifndef IDEMPOTENCY_SERVER_SEALING_KEY_RING_FILE_H_
#define IDEMPOTENCY_SERVER_SEALING_KEY_RING_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/sealing/key_ring.h"

namespace idempotency::internal {

// The ring in a file, of which nothing else stays in memory. INVALID_ARGUMENT names the file and
// what is wrong: it cannot be read, is no regular file, is too large, may be read by every user or
// written by a group, or is no key ring. A group may read it, as Kubernetes mounts secrets.
absl::StatusOr<std::shared_ptr<const KeyRing>> ReadKeyRingFile(const std::string& path);

// A key that `idempotencyctl keyring generate` makes.
struct NewKey {
  // Nullopt: at once for the first key of a file, kDefaultSealsIn for others, by when every replica
  // must have the file.
  std::optional<absl::Duration> seals_in;
};
inline constexpr absl::Duration kDefaultSealsIn = absl::Hours(1);

// Adds a key with a random secret to a file, or makes the file (0600). The former content stays as
// it is. The file is replaced as a whole, once the new content is on disk. Returns the new key's
// id, which is random. INVALID_ARGUMENT as above, or if the ring is full.
absl::StatusOr<std::uint32_t> GenerateKey(const std::string& path, const NewKey& key,
                                          absl::Time now);

// The content of a file, one line for each key and no secret: its id, since when it seals or from
// when on it will, and its check value, which is the same on every machine that has the same
// secret.
absl::StatusOr<std::string> DescribeKeyRingFile(const std::string& path, absl::Time now);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_KEY_RING_FILE_H_

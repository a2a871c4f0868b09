#ifndef IDEMPOTENCY_SERVER_SEALING_KEY_RING_H_
#define IDEMPOTENCY_SERVER_SEALING_KEY_RING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "server/sealing/hmac_key.h"

namespace idempotency::internal {

// One key of the ring: what is derived from its secret, which is not kept. Every use has a key of
// its own, so that no two uses can be mistaken for each other. Thread-safe.
class SealingKey {
 public:
  static constexpr std::size_t kSecretBytes = 32;

  // `secret` has kSecretBytes.
  SealingKey(std::uint32_t id, absl::Time created, absl::Time seals_from, std::string_view secret);

  std::uint32_t id() const { return id_; }
  absl::Time created() const { return created_; }
  absl::Time seals_from() const { return seals_from_; }

  // Derive the key of one attempt's reply, and of one record's checkpoints.
  const HmacKey& replies() const { return replies_; }
  const HmacKey& checkpoints() const { return checkpoints_; }
  // Identifies a reply that is completed again.
  const HmacKey& reply_digests() const { return reply_digests_; }
  // Derives the key of one namespace's fingerprints.
  const HmacKey& fingerprints() const { return fingerprints_; }

  // Eight bytes in hexadecimal that are the same for the same secret, and say nothing else about
  // it: for comparing the files of two machines.
  const std::string& check_value() const { return check_value_; }

 private:
  SealingKey(std::uint32_t id, absl::Time created, absl::Time seals_from, const HmacKey& root);

  const std::uint32_t id_;
  const absl::Time created_;
  const absl::Time seals_from_;
  const HmacKey replies_;
  const HmacKey checkpoints_;
  const HmacKey reply_digests_;
  const HmacKey fingerprints_;
  const std::string check_value_;
};

// The keys that seal and open what the store keeps. Immutable and thread-safe.
class KeyRing {
 public:
  // Reads the text of a key ring's file (keyring.proto).
  // INVALID_ARGUMENT names the place that is wrong and never quotes the text.
  static absl::StatusOr<std::shared_ptr<const KeyRing>> Parse(std::string_view text);

  // The key that seals at this time: the one whose `seals_from` was the last to come, of several
  // the one that was made last. Nullptr if none has come yet.
  const SealingKey* SealsAt(absl::Time now) const;
  // Nullptr if there is none with this id.
  const SealingKey* Find(std::uint32_t id) const;
  // In the order in which they begin to seal, latest first. Never empty.
  const std::vector<std::unique_ptr<const SealingKey>>& keys() const { return keys_; }

  // Whether both have the same keys, which begin to seal at the same times.
  bool IsSameAs(const KeyRing& other) const;

  // INVALID_ARGUMENT if an id of `before` has another secret here: rows that the former sealed
  // would count as damaged.
  absl::Status CheckSuccessorOf(const KeyRing& before) const;

 private:
  explicit KeyRing(std::vector<std::unique_ptr<const SealingKey>> keys);

  const std::vector<std::unique_ptr<const SealingKey>> keys_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_KEY_RING_H_

#ifndef IDEMPOTENCY_SERVER_SEALING_CONTENT_RESEALER_H_
#define IDEMPOTENCY_SERVER_SEALING_CONTENT_RESEALER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "grpc_idempotency/uuid.h"
#include "server/sealing/key_ring.h"
#include "server/store/reseal_operations.h"

namespace idempotency::internal {

// Reseals the replies and checkpoints of one step, from the keys that sealed before the one that
// seals now. What is under that key, or under one that sealed later, stays, and so does what was
// stored unsealed: sealing it would make it as trustworthy as the rest (docs/sealing.md). What does
// not open stays too.
//
// Thread-compatible.
class ContentResealer final : public ContentSealer {
 public:
  // `sealing` is of the ring.
  ContentResealer(std::shared_ptr<const KeyRing> ring, const SealingKey& sealing);

  ResealedContent Reseal(const StoredContent& stored) override;

  // Adds what was found to the store's answer.
  void AddTo(ResealStep& step) const;

 private:
  // The findings about one record.
  struct Found {
    // The ids, as in key_uses.
    std::set<std::uint32_t> keys;
    bool unsealed = false;
    bool damaged = false;
  };

  // Whether what this key sealed is to be resealed; also for a key that the ring does not have,
  // which then fails.
  bool IsEarlier(std::uint32_t key_id) const;
  // The id of a key of the ring, or 0.
  std::uint32_t Known(std::uint32_t key_id) const;
  void ResealReplyOf(const StoredContent& stored, ResealedContent& after, Found& found) const;
  void ResealCheckpointOf(const StoredContent& stored, ResealedContent& after, Found& found) const;

  const std::shared_ptr<const KeyRing> ring_;
  const SealingKey& sealing_;
  // The counts of ResealStep.
  std::int64_t current_ = 0;
  std::int64_t unsealed_ = 0;
  std::vector<RecordId> damaged_;
  std::map<std::uint32_t, SealingKeyUse> key_uses_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_CONTENT_RESEALER_H_

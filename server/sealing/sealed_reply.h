#ifndef IDEMPOTENCY_SERVER_SEALING_SEALED_REPLY_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALED_REPLY_H_

#include "absl/status/statusor.h"

#include "core/sha256.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/sealing/key_ring.h"

namespace idempotency::internal {

// Whose reply it is. The token stands for the attempt, and for this life of the record: the store
// makes 128 random bits for every grant.
struct ReplyOwner {
  const RecordKey& key;
  const RecordId& id;
  const Uuid& token;
};

// The digest by which the store recognises the same reply of the same attempt. Without the key
// nobody can find out whether it is that of a reply that he guesses. It is an HMAC of
// EncodedReply::digest, so that it costs the same for a reply of any size.
Sha256Digest KeyedReplyDigest(const SealingKey& key, const ReplyOwner& owner,
                              const EncodedReply& reply);

// The stored form of a reply (server/store/reply_envelope.h), with its keyed digest. DATA_LOSS /
// RECORD_DAMAGED if `reply` is not a reply.
absl::StatusOr<EncodedReply> SealReply(const SealingKey& key, const ReplyOwner& owner,
                                       const EncodedReply& reply);

// The reply that was sealed, or what is left of it without its content. DATA_LOSS / RECORD_DAMAGED
// unless every byte is as it was sealed, for this owner, under a key of the ring.
absl::StatusOr<EncodedReply> OpenReply(const KeyRing& ring, const ReplyOwner& owner,
                                       const EncodedReply& stored);

// The same reply, sealed under `key`. Of a reply without its content that is what is left, with the
// digest that it has: under its former key, since the whole reply is needed for another one.
absl::StatusOr<EncodedReply> ResealReply(const KeyRing& ring, const SealingKey& key,
                                         const ReplyOwner& owner, const EncodedReply& stored);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALED_REPLY_H_

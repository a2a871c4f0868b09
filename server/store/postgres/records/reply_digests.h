#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_REPLY_DIGESTS_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_REPLY_DIGESTS_H_

#include <optional>

#include "core/sha256.h"
#include "grpc_idempotency/reply.h"
#include "server/store/postgres/connection/result.h"

namespace idempotency::internal {

// The columns reply_digest and status_digest of a completed record: the digest that it was
// completed with; once the content of its reply was dropped, also that of the rest.
struct ReplyDigests {
  Sha256Digest reply;
  std::optional<Sha256Digest> status;
};

// Those of `reply`, whose StoredRecord::completed_digest is `completed`.
ReplyDigests ReplyDigestsOf(const std::optional<Sha256Digest>& completed,
                            const EncodedReply& reply);

// Reads one such column. False if it has a wrong size.
bool ReadDigest(const PostgresResult& result, int row, int column, Sha256Digest& digest);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_RECORDS_REPLY_DIGESTS_H_

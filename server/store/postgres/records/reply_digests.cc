#include "server/store/postgres/records/reply_digests.h"

#include <algorithm>
#include <string>

namespace idempotency::internal {

ReplyDigests ReplyDigestsOf(const std::optional<Sha256Digest>& completed,
                            const EncodedReply& reply) {
  if (!completed) return {reply.digest, std::nullopt};
  return {*completed, reply.digest};
}

bool ReadDigest(const PostgresResult& result, int row, int column, Sha256Digest& digest) {
  const std::string bytes = result.Bytea(row, column);
  if (bytes.size() != digest.size()) return false;
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return true;
}

}  // namespace idempotency::internal

#ifndef IDEMPOTENCY_SERVER_QUEUE_REQUEST_MATCHES_H_
#define IDEMPOTENCY_SERVER_QUEUE_REQUEST_MATCHES_H_

#include <cstddef>
#include <utility>
#include <vector>

#include "grpc_idempotency/fingerprint.h"
#include "server/queue/batcher.h"
#include "server/store/record_operations.h"

namespace idempotency::internal {

// Comparisons of one record with the reservations of its key, one for each distinct request: with a
// key ring each takes HMACs, and the waiters of a record mostly repeat one request.
//
// Not thread-safe.
class RequestMatches {
 public:
  // `batcher`, `record` and every compared reservation outlive it.
  RequestMatches(const Batcher& batcher, const Record& record)
      : batcher_(batcher), record_(record) {}

  // As RecordStore::MatchRequest(); `op` has the record's key.
  FingerprintMatch Of(const ReserveOp& op);

 private:
  using Fingerprints = std::vector<Fingerprint>;

  // Compares the versions that the record has: the others have no part in the result.
  bool IsSame(const Fingerprints& a, const Fingerprints& b) const;

  // Results are searched one after the other, so few of them are kept.
  static constexpr std::size_t kMaxKept = 4;

  const Batcher& batcher_;
  const Record& record_;
  std::vector<std::pair<const ReserveOp*, FingerprintMatch>> kept_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_QUEUE_REQUEST_MATCHES_H_

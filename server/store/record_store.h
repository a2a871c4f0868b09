#ifndef IDEMPOTENCY_SERVER_STORE_RECORD_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_RECORD_STORE_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "grpc_idempotency/fingerprint.h"
#include "server/store/held_connection.h"
#include "server/store/record.h"
#include "server/store/record_operations.h"
#include "server/store/verdict.h"

namespace idempotency::internal {

// The records, for the callers whose operations they are about.
//
// Thread-safe: any thread may call any method at any time. All block until the store has answered,
// except MatchRequest() and Hold(), which wait for nothing.
//
// Failures of a single operation, in addition to those named at each method:
//   UNAVAILABLE / STORE_UNAVAILABLE     The outcome is unknown: it may or may not
//                                       have happened. Repeat it with the same
//                                       tokens until it is answered.
//   INTERNAL / RECORD_ID_COLLISION      Another key has this id. Nothing changed.
//   DATA_LOSS / RECORD_DAMAGED          The stored row cannot be read. Nothing
//                                       changed, and it is never run again.
// RESERVATION_LOST names its cause (server/store/lost_reservation.h). Errors never contain SQL,
// keys, tokens or replies.
class RecordStore {
 public:
  virtual ~RecordStore() = default;

  // Batches, from several workers of the batcher at a time. Each operation is answered at its
  // index; a single call is a batch of one. Operations of one batch behave as if done one after
  // the other in some order. The caller puts at most one operation per record in a batch, except
  // for Get, and at most limits::kMaxBatch.
  //
  // Once the replies in the answers of one Reserve or Get reach limits::kMaxBatchReplyBytes, the
  // remaining operations are answered RESOURCE_EXHAUSTED / OVERLOADED and are not executed: the
  // caller sends them again with its next call. The first one never is.

  // Decides which caller may run. In addition to the verdicts:
  //   INVALID_ARGUMENT / KEY_INVALID             new UUIDv7 key from more than
  //                                              limits::kMaxKeyAhead ahead
  //   FAILED_PRECONDITION / FINGERPRINT_UNKNOWN  no fingerprint version in common
  //   FAILED_PRECONDITION / RESERVATION_LOST     the request token's grant was released
  //   RESOURCE_EXHAUSTED / QUOTA_EXCEEDED        a new or a forgotten key, and only_existing
  // Once `Reserved` is answered the grant is durable, unless it is Reserved::relaxed.
  virtual std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) = 0;

  // Stores a reply. OK if the token matches and the record is RESERVED (also
  // after its lease, if no attempt took over) or UNKNOWN, and again for the
  // same token and the same reply. Otherwise, and once the record has expired
  // or is removed, FAILED_PRECONDITION / RESERVATION_LOST. Once OK is answered
  // the reply is durable.
  virtual std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) = 0;

  // As Complete() and Reserve(), one after the other in either order; a record
  // may be in both. A store whose commits cost more than its statements has
  // them share one.
  virtual SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                           absl::Span<const ReserveOp> reservations) {
    SharedAnswers answers;
    answers.completions = Complete(completions);
    answers.verdicts = Reserve(reservations);
    return answers;
  }

  // Releases a reservation: RESERVED and token matches -> RELEASED, not to be
  // granted before `pause` is over, or UNKNOWN if `outcome_unknown`. Repeating it
  // is OK and changes nothing. Otherwise
  // FAILED_PRECONDITION / RESERVATION_LOST. The row stays.
  virtual std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) = 0;

  // Lengthens a lease: never shortens it, never beyond the record's expiry,
  // never revives UNKNOWN; works after the lease has expired if no attempt took
  // over. Otherwise FAILED_PRECONDITION / RESERVATION_LOST.
  virtual std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) = 0;

  // Reads a record without changing it. NOT_FOUND / RECORD_NOT_FOUND if it does not
  // exist or is forgotten.
  virtual std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) = 0;

  // What waits for nothing.

  // Compares a record that Get() answered with a request, as Reserve() does. From any thread.
  virtual FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const;

  // Returns a connection for an idle thread, through which another one can begin a call. Does not
  // wait: returns nullptr if no connection is idle, or if the store has no such connections. The
  // store calls `wanted` at most once, from any thread, when another call waits for a connection;
  // the idle thread then destroys its connection soon. `wanted` must not block, nor call the store,
  // which outlives the connection.
  virtual std::unique_ptr<HeldConnection> Hold([[maybe_unused]] std::function<void()> wanted) {
    return nullptr;
  }
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_RECORD_STORE_H_

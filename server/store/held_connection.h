#ifndef IDEMPOTENCY_SERVER_STORE_HELD_CONNECTION_H_
#define IDEMPOTENCY_SERVER_STORE_HELD_CONNECTION_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/verdict.h"

namespace idempotency::internal {

struct CompleteOp;
struct Completion;
struct ReserveOp;

// A connection of a store that a thread holds while it has nothing to do, for one call. Another
// thread, one that must not wait, sends the first statement of the next call through it; the holder
// waits for descriptor(), and finishes the call. So the answer of the database wakes the thread
// that needs it, and no thread is woken only to send the query.
//
// Thread-compatible, except that one thread may wait for the descriptor while another begins a
// call.
class HeldConnection {
 public:
  // Replies of one call together, in bytes: the thread that begins it also seals and encodes them,
  // and a socket that has been idle takes them at once. Calls with more do not begin.
  static constexpr std::size_t kMaxReplyBytes = 8 * 1024;

  virtual ~HeldConnection() = default;

  // Readable when a call that began can be finished, and when the connection should be given up:
  // its server ended it.
  virtual int descriptor() const = 0;

  // Begins a call of RecordStore::Reserve or Complete. Does not wait. `ops`, of at least one, stay
  // where they are until the call is finished. False if it did not begin: nothing happened,
  // and the store's own method serves the call, once this is destroyed.
  virtual bool BeginReserve(absl::Span<const ReserveOp> ops) = 0;
  virtual bool BeginComplete(absl::Span<const CompleteOp> ops) = 0;

  // The answers, as of the store's own method, to the call that began. Blocks. Once for a
  // connection.
  virtual std::vector<absl::StatusOr<Verdict>> FinishReserve() = 0;
  virtual std::vector<absl::StatusOr<Completion>> FinishComplete() = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_HELD_CONNECTION_H_

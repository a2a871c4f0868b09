#ifndef IDEMPOTENCY_SERVER_WAIT_ROOM_H_
#define IDEMPOTENCY_SERVER_WAIT_ROOM_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/clock.h"
#include "core/limits.h"
#include "core/mutex.h"
#include "server/batcher.h"
#include "server/observer.h"
#include "server/store/store.h"

namespace idempotency {

struct WaitRoomOptions {
  // Over this, a call that would wait is answered `in_flight` at once.
  std::size_t max_waiters = limits::kMaxWaiters;
  // How often a record with waiters is read, to see what other replicas did:
  // the pause grows from the first to the longest, with jitter.
  absl::Duration first_pause = absl::Milliseconds(20);
  absl::Duration longest_pause = absl::Milliseconds(200);
  // Such reads under way at the same time, over all records: one batch, so that
  // waiting never fills the queue.
  std::size_t max_reads = limits::kMaxBatch;
  const Clock* clock = &Clock::System();
};

// Where a Reserve stays whose record another attempt holds, without holding a
// thread. It is looked at again when this process saw the record change
// (Moved()), when a periodic read shows that another replica changed it, and
// when the running attempt's lease is over.
//
// What a read proves is answered from it, to every waiter at once: a completed
// record is a replay for the same request and a mismatch for another. To run,
// the calls go to the store again, one per record at a time: the first one wins
// and the others wait for it.
//
// Thread-safe.
class WaitRoom {
 public:
  using Deadline = Batcher::Deadline;
  using Done = Batcher::Done<absl::StatusOr<Verdict>>;

  // One Reserve. Made by NewCall(), handed to Start() and Cancel().
  class Call;
  using CallPtr = std::shared_ptr<Call>;

  // `batcher` and `observer` must outlive this.
  WaitRoom(Batcher& batcher, Observer& observer, const WaitRoomOptions& options = {});
  // As Close(), and waits until the batcher has answered every call.
  ~WaitRoom();
  WaitRoom(const WaitRoom&) = delete;
  WaitRoom& operator=(const WaitRoom&) = delete;

  // A call that waits up to `max_wait` from now, and not up to `deadline`: it
  // leaves time to send the answer.
  CallPtr NewCall(ReserveOp op, Deadline deadline, absl::Duration max_wait, Done done);

  // Sends the call to the store. Its `done` runs exactly once, on a thread of
  // the batcher, of the room or of the caller of any method here; it must not
  // block. The answer is the store's, with these additions:
  //   in_flight   also when the wait is over, the room is full or closed
  //   CANCELLED   the call was cancelled before it had an answer
  void Start(const CallPtr& call);

  // Nobody wants the answer any more. A call that waits leaves the room and is
  // never granted. If the store is just granting it, a call without a request
  // token gives the reservation back; one with a request token keeps it, since
  // its caller repeats the call until it has the answer. No effect on a call
  // that was answered.
  void Cancel(const CallPtr& call);

  // This process completed or released the record: its waiters are looked at
  // now.
  void Moved(const RecordId& id);

  // Answers everybody who waits with `in_flight`, which is still true, and
  // joins the timer. From then on nobody waits. May be called again.
  void Close();

 private:
  // One record that has waiters, or is being looked at for them.
  struct Room {
    // By seat: in the order in which they came.
    absl::btree_map<std::uint64_t, CallPtr> waiters;
    // A read is under way; it speaks for those who sat down before it.
    bool reading = false;
    std::uint64_t read_before_seat = 0;
    // The record moved since that read was sent: read again.
    bool read_again = false;
    // One of the waiters has gone to the store.
    bool trying = false;
    // What the last in_flight said.
    std::uint32_t attempt = 0;
    Deadline lease_end;
    absl::Duration pause;
    Deadline next_read;
    // When the timer looks at it: its entry in due_.
    Deadline due = Batcher::kNoDeadline;
  };
  // Work to do once the lock is free.
  using Actions = std::vector<std::function<void()>>;

  void Answered(const CallPtr& call, absl::StatusOr<Verdict> answer);
  void Read(const RecordId& id, absl::StatusOr<Record> record);
  void RunTimer();

  Batcher& batcher_;
  Observer& observer_;
  const WaitRoomOptions options_;
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_WAIT_ROOM_H_

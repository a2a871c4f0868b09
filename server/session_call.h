#ifndef IDEMPOTENCY_SERVER_SESSION_CALL_H_
#define IDEMPOTENCY_SERVER_SESSION_CALL_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/limits.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/answer_frames.h"
#include "server/memory_budget.h"
#include "server/operations.h"
#include "server/session_registry.h"

namespace idempotency::internal {

struct SessionOptions {
  // Unanswered reservations and reads; those over it are answered OVERLOADED.
  std::size_t max_in_flight = limits::kMaxSessionInFlight;
  // A frame of answers, unless one answer alone is larger.
  std::size_t max_answer_frame_bytes = limits::kMaxAnswerFrameBytes;
  // Unanswered operations of every kind and what they weigh, and what answers
  // weigh that have not gone out. At any of them nothing more is read.
  std::size_t max_unanswered = limits::kMaxSessionUnanswered;
  std::size_t max_unanswered_bytes = limits::kMaxSessionUnansweredBytes;
  std::size_t max_unwritten_bytes = limits::kMaxSessionUnwrittenBytes;
  // Over this, replays and records are answered OVERLOADED: what was read before
  // reading stopped could bring a reply each.
  std::size_t max_held_bytes = limits::kMaxSessionHeldBytes;
  // The first frame after that is answered with `draining`: the caller goes on with
  // another stream, which finds another connection if this one is to end.
  absl::Duration max_age = absl::InfiniteDuration();
  // Operations of one frame, cancels among them. As many as may be unanswered: more
  // could not be begun.
  std::size_t max_frame_operations = limits::kMaxSessionUnanswered;
  // What a frame may take in memory once it is parsed (server/frame_bounds.h). The
  // largest that a guard sends is a streamed reply of limits::kMaxReplyBytes whose
  // messages are all empty.
  std::size_t max_frame_parsed_bytes = 4 * limits::kMaxMessageBytes;
};

// One Session stream: reads frames, puts their operations into the batcher
// together, and sends the answers: at once while nothing is being written, and
// otherwise together in the next frame. docs/session.md has the rules.
//
// A caller that breaks a rule has its stream ended at once, with the reason: nobody
// waits for its operations any more. What the store is deciding is done, and its
// answers go nowhere.
//
// Owns itself: it is deleted when gRPC is done with it and every operation was
// answered. Thread-safe.
class SessionCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Both must outlive it.
  SessionCall(Operations& operations, SessionRegistry& registry, const SessionOptions& options);
  ~SessionCall() override;

  // Sends the limits and begins to read.
  void Start();

  // Tells the caller to ask for nothing more here.
  void AnnounceDraining();

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  class Call;
  template <typename Response>
  class CallFor;
  class Frame;
  class GatheredAnswers;

  // What is to be done once the lock is free.
  struct Next {
    bool read = false;
    bool write = false;
    bool finish = false;

    bool any() const { return read || write || finish; }
  };

  void TakeFrame();
  // OK if its operations were begun.
  absl::Status BeginFrame();
  // Ends the stream: `wrong` is what the caller did.
  void Fail(absl::Status wrong) ABSL_LOCKS_EXCLUDED(mutex_);
  // INVALID_ARGUMENT if the frame uses an id twice; then none of it is begun.
  absl::Status Register(Frame& frame) ABSL_LOCKS_EXCLUDED(mutex_);
  // Answers that were gathered on one thread.
  GatheredAnswers& Gather();
  void Deliver(GatheredAnswers& gathered) ABSL_LOCKS_EXCLUDED(mutex_);
  void StopWaiting(const std::vector<std::uint64_t>& ids) ABSL_LOCKS_EXCLUDED(mutex_);
  std::vector<InFlightWaiters::WaiterPtr> Waiting() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Cancel(const std::vector<InFlightWaiters::WaiterPtr>& calls);

  // True once: when max_age is over.
  bool ComesOfAge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Next Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // On a thread that is not one of this stream's reactions, this may be gone
  // afterwards.
  void Do(const Next& next) ABSL_LOCKS_EXCLUDED(mutex_);

  Operations& operations_;
  SessionRegistry& registry_;
  const SessionOptions options_;
  const Batcher::Deadline began_;

  // For the frame that is being taken, used again for the next one.
  std::vector<char> frame_block_;

  // gRPC's while reading_ and writing_ say so.
  grpc::ByteBuffer read_;
  grpc::ByteBuffer write_;
  // Answers that have not gone out, for those who only want to know how much it
  // is.
  std::atomic<std::size_t> unwritten_bytes_{0};
  // As failure_, for those who only want to know whether there is one.
  std::atomic<bool> failed_{false};
  // Frames that came, for the reading thread.
  std::uint64_t frames_read_ = 0;

  Mutex mutex_;
  // From StartRead() until the frame is in the batcher.
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t writing_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // A frame's calls are registered, and their wait room handles are being set.
  bool submitting_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool of_age_ ABSL_GUARDED_BY(mutex_) = false;
  // The caller is gone.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // gRPC knows nothing of the stream any more.
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  // What the caller did wrong.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  AnswerFrames frames_ ABSL_GUARDED_BY(mutex_);
  // All answers so far, and what those hold of the memory budget that have not gone
  // out: with where the answers end that came with them.
  std::uint64_t appended_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::pair<std::uint64_t, std::vector<MemoryBudget::Hold>>> holds_
      ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::uint64_t, std::unique_ptr<Call>> calls_ ABSL_GUARDED_BY(mutex_);
  std::size_t calls_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  // Reservations and reads among them.
  std::size_t counted_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SESSION_CALL_H_

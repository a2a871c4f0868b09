#ifndef IDEMPOTENCY_SERVER_RPC_SESSION_CALL_H_
#define IDEMPOTENCY_SERVER_RPC_SESSION_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "core/mutex.h"
#include "grpc_idempotency/deadline.h"
#include "server/access/access_control.h"
#include "server/operation/operations.h"
#include "server/queue/in_flight_waiters.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/answers_by_host.h"
#include "server/rpc/gathered_answers.h"
#include "server/rpc/oldest_unread.h"
#include "server/rpc/outgoing_answers.h"
#include "server/rpc/request_frame.h"
#include "server/rpc/session_options.h"
#include "server/rpc/session_registry.h"
#include "server/rpc/unanswered_operations.h"
#include "server/rpc/unread_answer_limits.h"

namespace idempotency::internal {

// One Session stream: reads frames, puts their operations into the batcher
// together, and sends the answers: at once while nothing is being written, and
// otherwise together in the next frame. docs/session.md has the rules.
//
// If a caller breaks a rule, its stream ends at once, with the reason: its
// operations no longer wait. Operations at the store are executed, and their
// answers discarded. It ends too, as if the connection had broken, if its caller does not read: a
// write takes longer than SessionOptions::write_timeout, or the unread answers of all sessions are
// many, and its own are more than MemoryBudget::UnreadAnswersAllowance() for
// limits::kSessionReadTime, or the oldest.
//
// Owns itself: it is deleted when gRPC is done with it and every operation was
// answered. Thread-safe.
class SessionCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                          private GatheredAnswers::Stream {
 public:
  // The first two must outlive it. `cancel_call` cancels the gRPC call, so that OnCancel() follows;
  // it is not called after OnDone(). Without a caller everything is permitted. `host` is its
  // remote host (server/rpc/remote_address.h).
  SessionCall(Operations& operations, SessionRegistry& registry, UnreadAnswerLimits& unread_answers,
              const SessionOptions& options, std::function<void()> cancel_call,
              std::unique_ptr<Caller> caller = nullptr, const std::string& host = "");
  ~SessionCall() override;

  // Sends the limits and begins to read.
  void Start();

  // Notifies the caller to send no more on this stream.
  void AnnounceDraining();
  // The same if the caller's credentials are about to end: without a frame of the caller nothing
  // else would notice. Once for each stream.
  void AnnounceRenewal() ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether a write has taken too long, for so many unread answers. Then the stream neither reads
  // nor writes any more, and stays until EndAbandoned(), which must follow.
  bool AbandonIfStalled() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same if the write is still under way that began then.
  bool AbandonIfWritingSince(SteadyTime since) ABSL_LOCKS_EXCLUDED(mutex_);
  void EndAbandoned() ABSL_LOCKS_EXCLUDED(mutex_);

  // Without its place; nullopt if it has no such answers. Also while the stream is being ended:
  // these answers are about to be released.
  std::optional<UnreadAnswers> Unread() ABSL_LOCKS_EXCLUDED(mutex_);
  // The same where its caller has had kSessionReadTime for the frame that is being written.
  std::optional<UnreadAnswers> Overdue() ABSL_LOCKS_EXCLUDED(mutex_);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  enum class Phase {
    kOpen,
    // The caller broke a rule: the answers so far are sent, and then the reason.
    kFailed,
    // The connection is lost, or given up: nothing more is sent.
    kBroken,
    // gRPC has the final status.
    kFinished,
    // gRPC is done with the stream.
    kDone,
  };
  enum class Reading {
    kNone,
    kUnderWay,
    // The frame's operations are registered, and are being begun.
    kBeginsOperations,
    // The caller sends no more.
    kEnded,
  };

  // Actions for after the lock is released.
  struct Next {
    bool read = false;
    const grpc::ByteBuffer* write = nullptr;
    bool finish = false;
    // Alone.
    bool abandon = false;

    bool any() const { return read || write != nullptr || finish || abandon; }
  };

  void TakeFrame();
  // OK if its operations were begun.
  absl::Status BeginFrame();
  // Ends the stream: `wrong` is the caller's fault.
  void Fail(absl::Status wrong) ABSL_LOCKS_EXCLUDED(mutex_);
  // UnansweredOperations::Add(): from then on cancels and answers find the frame's operations.
  absl::Status Register(RequestFrame& frame) ABSL_LOCKS_EXCLUDED(mutex_);
  void StopWaiting(const std::vector<std::uint64_t>& ids) ABSL_LOCKS_EXCLUDED(mutex_);
  void Cancel(const std::vector<InFlightWaiters::WaiterPtr>& waiters);

  // For gathered answers, on any thread.
  std::size_t max_answer_frame_bytes() const override { return options_.max_answer_frame_bytes; }
  bool failed() const override { return failed_.load(std::memory_order_relaxed); }
  bool HasRoomFor(std::size_t bytes) const override {
    return unwritten_bytes_.load(std::memory_order_relaxed) + bytes <= options_.max_held_bytes;
  }
  MemoryBudget& budget() const override { return operations_.budget(); }
  void Deliver(GatheredAnswers& gathered) override ABSL_LOCKS_EXCLUDED(mutex_);

  // True once: when max_age is over, or the caller's credentials are about to end.
  bool ReachedMaxAge() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Next Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers can still be sent.
  bool MaySend() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool MayRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Break() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // From then on nothing is written or read, and the stream stays until Next::abandon is done.
  Next Abandon() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether all sessions, or those of its host, have more unread answers than they should.
  bool IsCrowded() const;
  bool HasHadTimeToRead() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasTooManyUnread() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsStalled() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // On a thread that is not one of this stream's reactions, this may be
  // destroyed afterwards.
  void Do(const Next& next) ABSL_LOCKS_EXCLUDED(mutex_);

  Operations& operations_;
  SessionRegistry& registry_;
  UnreadAnswerLimits& unread_answers_;
  const SessionOptions options_;
  const std::function<void()> cancel_call_;
  const std::unique_ptr<Caller> caller_;
  const std::shared_ptr<HostAnswers> host_;
  const SteadyTime began_;

  // Owned by gRPC during a read.
  grpc::ByteBuffer read_;
  // The size of unsent answers, for code that needs only that.
  std::atomic<std::size_t> unwritten_bytes_{0};
  // Whether the caller broke a rule, for code that only checks this.
  std::atomic<bool> failed_{false};
  // Received frames, for the reading thread.
  std::uint64_t frames_read_ = 0;

  Mutex mutex_;
  Phase phase_ ABSL_GUARDED_BY(mutex_) = Phase::kOpen;
  // From StartRead() until the frame is in the batcher.
  Reading reading_ ABSL_GUARDED_BY(mutex_) = Reading::kNone;
  bool reached_max_age_ ABSL_GUARDED_BY(mutex_) = false;
  // Between Abandon() and the end of gRPC's TryCancel(), which needs the call.
  bool abandoning_ ABSL_GUARDED_BY(mutex_) = false;
  // The caller's fault.
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  OutgoingAnswers outgoing_ ABSL_GUARDED_BY(mutex_);
  UnansweredOperations unanswered_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_SESSION_CALL_H_

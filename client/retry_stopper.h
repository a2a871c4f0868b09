#ifndef IDEMPOTENCY_CLIENT_RETRY_STOPPER_H_
#define IDEMPOTENCY_CLIENT_RETRY_STOPPER_H_

#include <grpcpp/client_context.h>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

#include "core/mutex.h"

namespace idempotency {

// Ends calls of CallWithRetries from another thread: the process shuts down, or
// whoever asked has left. One may stand for many calls. Outlives them.
//
// Thread-safe.
class RetryStopper {
 public:
  RetryStopper() = default;
  RetryStopper(const RetryStopper&) = delete;
  RetryStopper& operator=(const RetryStopper&) = delete;

  // Cancels the tries that are running, ends every pause, and lets no further
  // try begin. For good. What was cancelled may have happened: its key is what
  // finds out.
  void Stop();
  bool stopped() const;

  // For CallWithRetries: the try with this context can be cancelled while this
  // object lives. A context that comes after Stop() is cancelled at once.
  class RunningTry {
   public:
    RunningTry(RetryStopper& stopper, grpc::ClientContext& context);
    ~RunningTry();
    RunningTry(const RunningTry&) = delete;
    RunningTry& operator=(const RunningTry&) = delete;

   private:
    RetryStopper& stopper_;
    grpc::ClientContext& context_;
  };

  // For CallWithRetries: returns when `pause` has passed or Stop() was called.
  void Pause(absl::Duration pause);

 private:
  mutable Mutex mutex_;
  CondVar stop_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_CLIENT_RETRY_STOPPER_H_

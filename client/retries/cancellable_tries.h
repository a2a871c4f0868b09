#ifndef IDEMPOTENCY_CLIENT_RETRIES_CANCELLABLE_TRIES_H_
#define IDEMPOTENCY_CLIENT_RETRIES_CANCELLABLE_TRIES_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/client/retry_canceller.h"

namespace idempotency::internal {

// The tries that one RetryCanceller ends. Thread-safe.
class CancellableTries {
 public:
  CancellableTries() = default;
  CancellableTries(const CancellableTries&) = delete;
  CancellableTries& operator=(const CancellableTries&) = delete;

  static CancellableTries& Of(RetryCanceller& canceller) { return *canceller.tries_; }

  // As in RetryCanceller.
  void Cancel();
  bool cancelled() const;

  // The try with this context can be cancelled during this object's lifetime. A
  // context added after Cancel() is cancelled at once.
  class Running {
   public:
    Running(CancellableTries& tries, grpc::ClientContext& context);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    friend class CancellableTries;

    CancellableTries& tries_;
    grpc::ClientContext& context_;
    // Cancel() cancels the context at this moment. Guarded by the mutex of `tries_`.
    bool cancelling_ = false;
  };

  // Returns when `pause` has passed or Cancel() was called. Meanwhile it polls for gRPC, whose
  // connections need a thread that does: in a process that only makes blocking calls there is no
  // other one, and a connection would advance every 5 s, by one step of its handshake.
  void Pause(absl::Duration pause);

 private:
  mutable Mutex mutex_;
  // The cancellation of a try is over.
  CondVar changed_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<Running*> running_ ABSL_GUARDED_BY(mutex_);
  // One for each pause, until it ends.
  absl::flat_hash_set<grpc::Alarm*> pauses_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_RETRIES_CANCELLABLE_TRIES_H_

#ifndef IDEMPOTENCY_CLIENT_STOPPABLE_TRIES_H_
#define IDEMPOTENCY_CLIENT_STOPPABLE_TRIES_H_

#include <grpcpp/client_context.h>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"

#include "core/mutex.h"
#include "grpc_idempotency/client/retry_stopper.h"

namespace idempotency::internal {

// The tries that one RetryStopper ends. Thread-safe.
class StoppableTries {
 public:
  StoppableTries() = default;
  StoppableTries(const StoppableTries&) = delete;
  StoppableTries& operator=(const StoppableTries&) = delete;

  static StoppableTries& Of(RetryStopper& stopper) { return *stopper.tries_; }

  // As those of RetryStopper.
  void Stop();
  bool stopped() const;

  // The try with this context can be cancelled while this object lives. A context
  // that comes after Stop() is cancelled at once.
  class Running {
   public:
    Running(StoppableTries& tries, grpc::ClientContext& context);
    ~Running();
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    StoppableTries& tries_;
    grpc::ClientContext& context_;
  };

  // Returns when `pause` has passed or Stop() was called.
  void Pause(absl::Duration pause);

 private:
  mutable Mutex mutex_;
  CondVar stop_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_set<grpc::ClientContext*> running_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_STOPPABLE_TRIES_H_

#ifndef IDEMPOTENCY_CLIENT_CONNECTION_OUTSTANDING_CALLS_H_
#define IDEMPOTENCY_CLIENT_CONNECTION_OUTSTANDING_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"

#include "core/mutex.h"

namespace idempotency::internal {

// Owns the calls that a connection has sent and that are not answered yet, so
// that closing the connection can cancel them and wait for their callbacks.
//
// Thread-safe, except that CancelAndWait() must be the last use.
class OutstandingCalls {
 public:
  class Call {
   public:
    virtual ~Call() = default;
    // Hastens the call's end. May be called on any thread, also for a call
    // that is ending at this moment or not quite started.
    virtual void Cancel() = 0;
  };

  OutstandingCalls() = default;
  // Nothing may be outstanding.
  ~OutstandingCalls();
  OutstandingCalls(const OutstandingCalls&) = delete;
  OutstandingCalls& operator=(const OutstandingCalls&) = delete;

  // Before the call is sent.
  void Add(std::shared_ptr<Call> call);
  // The last step of the call's callback: destroys the call, then counts it as
  // ended. In this order, because gRPC joins its callback threads with the last
  // reference to a channel: a call that still held one on such a thread would
  // make it join itself.
  void End(const Call* call);

  // Cancels every call, in the order of Add(), and returns when the last one has ended. Never from
  // within a callback: it would wait for itself.
  void CancelAndWait();

  std::size_t size() const;

 private:
  struct Outstanding {
    std::uint64_t number;
    std::shared_ptr<Call> call;
  };

  mutable Mutex mutex_;
  CondVar ended_;
  absl::flat_hash_map<const Call*, Outstanding> calls_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
  // The number of calls in `calls_`, and of those that End() is destroying.
  std::size_t outstanding_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CLIENT_CONNECTION_OUTSTANDING_CALLS_H_

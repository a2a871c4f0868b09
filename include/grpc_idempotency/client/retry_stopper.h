#ifndef GRPC_IDEMPOTENCY_CLIENT_RETRY_STOPPER_H_
#define GRPC_IDEMPOTENCY_CLIENT_RETRY_STOPPER_H_

#include <memory>

namespace idempotency {

namespace internal {
class StoppableTries;
}  // namespace internal

// Ends calls of CallWithRetries from another thread: the process shuts down, or
// whoever asked has left. One may stand for many calls. Outlives them.
//
// Thread-safe.
class RetryStopper {
 public:
  RetryStopper();
  ~RetryStopper();
  RetryStopper(const RetryStopper&) = delete;
  RetryStopper& operator=(const RetryStopper&) = delete;

  // Cancels the tries that are running, ends every pause, and lets no further
  // try begin. For good. What was cancelled may have happened: its key is what
  // finds out.
  void Stop();
  bool stopped() const;

 private:
  friend class internal::StoppableTries;

  const std::unique_ptr<internal::StoppableTries> tries_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_RETRY_STOPPER_H_

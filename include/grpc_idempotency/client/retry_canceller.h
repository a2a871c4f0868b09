#ifndef GRPC_IDEMPOTENCY_CLIENT_RETRY_CANCELLER_H_
#define GRPC_IDEMPOTENCY_CLIENT_RETRY_CANCELLER_H_

#include <memory>

namespace idempotency {

namespace internal {
class CancellableTries;
}  // namespace internal

// Ends calls of CallWithRetries from another thread: the process shuts down, or
// whoever asked has left. One may stand for many calls. Outlives them.
//
// Thread-safe.
class RetryCanceller {
 public:
  RetryCanceller();
  ~RetryCanceller();
  RetryCanceller(const RetryCanceller&) = delete;
  RetryCanceller& operator=(const RetryCanceller&) = delete;

  // Cancels the tries that are running, ends every pause, and lets no further
  // try begin. For good. What was cancelled may have happened: its key is what
  // finds out.
  void Cancel();
  bool cancelled() const;

 private:
  friend class internal::CancellableTries;

  const std::unique_ptr<internal::CancellableTries> tries_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_RETRY_CANCELLER_H_

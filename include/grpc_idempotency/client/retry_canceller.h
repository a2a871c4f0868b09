#ifndef GRPC_IDEMPOTENCY_CLIENT_RETRY_CANCELLER_H_
#define GRPC_IDEMPOTENCY_CLIENT_RETRY_CANCELLER_H_

#include <memory>

namespace idempotency {

namespace internal {
class CancellableTries;
}  // namespace internal

// Ends calls of CallWithRetries from another thread: the process shuts down, or the requester
// has disconnected. One canceller may serve many calls, and must outlive them.
//
// Thread-safe.
class RetryCanceller {
 public:
  RetryCanceller();
  ~RetryCanceller();
  RetryCanceller(const RetryCanceller&) = delete;
  RetryCanceller& operator=(const RetryCanceller&) = delete;

  // Cancels the running tries, ends every pause, and prevents further tries, permanently. A
  // cancelled operation may have happened: a repeat with its key finds out.
  void Cancel();
  // Whether Cancel() was called.
  bool cancelled() const;

 private:
  friend class internal::CancellableTries;

  const std::unique_ptr<internal::CancellableTries> tries_;
};

}  // namespace idempotency

#endif  // GRPC_IDEMPOTENCY_CLIENT_RETRY_CANCELLER_H_

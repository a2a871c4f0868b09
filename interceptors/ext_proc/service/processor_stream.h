#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_STREAM_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_STREAM_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/mutex.h"
#include "interceptors/ext_proc/service/exchange_bounds.h"
#include "interceptors/ext_proc/service/exchange_guard.h"
#include "interceptors/ext_proc/service/guarded_exchange.h"
#include "interceptors/server/threads/worker_pool.h"

namespace idempotency::internal {

// One stream of gRPC that carries one exchange. Owns itself until gRPC is done with it, and until
// the guard has answered. A large message is read by a worker, and so is the last one of a large
// request or reply: its fingerprint or digest takes long, and the thread of gRPC's serves all other
// calls too. Thread-safe.
class ProcessorStream final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                              public std::enable_shared_from_this<ProcessorStream> {
 public:
  struct Callbacks {
    // The proxy of this stream is misconfigured; may be called several times.
    std::function<void()> misconfigured;
    // gRPC is done with it.
    std::function<void(const ProcessorStream*)> done;
  };

  // Counted in `bounds` already. The references outlive it.
  ProcessorStream(std::shared_ptr<const ProcessorSettings> settings, ExchangeGuard& guard,
                  WorkerPool& workers, ExchangeBounds& bounds, ProcessorEvents& events,
                  Callbacks callbacks);
  ~ProcessorStream() override;

  void Start();
  // Refuses a request that has not been forwarded.
  void Refuse(const absl::Status& why);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  // The transfers that gRPC has in progress.
  struct Transfers {
    bool reading = false;
    bool writing = false;
    // The proxy sends nothing more.
    bool half_closed = false;
  };
  // Actions for after the lock is released.
  struct Next {
    bool read = false;
    bool write = false;
    bool finish = false;
    bool misconfigured = false;
    std::vector<GuardedExchange::Task> tasks;
  };

  using Change = std::function<void(GuardedExchange&, Transfers&)>;

  // Once no worker has the exchange.
  void Apply(Change change) ABSL_LOCKS_EXCLUDED(mutex_);
  // By a worker.
  void ApplyOnWorker(Change change) ABSL_LOCKS_EXCLUDED(mutex_);
  void Work(const Change& change) ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the held bytes and `bytes` more are too much for a thread of gRPC's.
  bool IsLarge(std::size_t bytes) const ABSL_LOCKS_EXCLUDED(mutex_);
  // Must not be called while a worker has the exchange.
  Next Step() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Do(Next next) ABSL_LOCKS_EXCLUDED(mutex_);
  void Perform(GuardedExchange::Task task);
  void Account() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  ExchangeGuard& guard_;
  WorkerPool& workers_;
  ExchangeBounds& bounds_;
  const Callbacks callbacks_;
  std::shared_ptr<ProcessorStream> self_;

  // Owned by gRPC while it reads and writes.
  grpc::ByteBuffer read_;
  grpc::ByteBuffer write_;

  mutable Mutex mutex_;
  // While a worker has them, that one alone uses them, without the lock.
  GuardedExchange exchange_ ABSL_GUARDED_BY(mutex_);
  Transfers transfers_ ABSL_GUARDED_BY(mutex_);
  bool worker_has_it_ ABSL_GUARDED_BY(mutex_) = false;
  // For when it is back: no message is among them, so they are few.
  std::vector<Change> changes_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // Threads that are about to start a read or a write.
  int starting_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status finish_with_ ABSL_GUARDED_BY(mutex_);
  // As counted in bounds_.
  ExchangeBounds::Held held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_SERVICE_PROCESSOR_STREAM_H_

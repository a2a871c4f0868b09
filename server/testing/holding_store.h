#ifndef IDEMPOTENCY_SERVER_TESTING_HOLDING_STORE_H_
#define IDEMPOTENCY_SERVER_TESTING_HOLDING_STORE_H_

#include <sys/eventfd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"

#include "core/mutex.h"
#include "server/files/file_descriptor.h"
#include "server/store/held_connection.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {

// A store with connections to hold, in front of one without: a call that began is applied when it
// is finished. Thread-safe.
class HoldingStore final : public StoreDecorator<HoldingStore> {
 public:
  // `store` outlives this.
  HoldingStore(Store& store, int connections) : StoreDecorator(store), spare_(connections) {}

  // Later calls do not begin.
  void Decline() {
    MutexLock lock(mutex_);
    declines_ = true;
  }
  // Answers of calls that began arrive only with Arrive().
  void Delay() {
    MutexLock lock(mutex_);
    delays_ = true;
  }
  void Arrive() {
    MutexLock lock(mutex_);
    delays_ = false;
    for (const Held* const connection : held_) connection->Signal();
  }
  // As a server that ends its connections: none is given out any more.
  void EndConnections() {
    MutexLock lock(mutex_);
    spare_ = -static_cast<int>(held_.size());
    for (const Held* const connection : held_) connection->Signal();
  }
  // As another caller that waits for a connection: none is given out any more.
  void WantConnections() {
    MutexLock lock(mutex_);
    spare_ = -static_cast<int>(held_.size());
    for (const Held* const connection : held_) connection->Want();
  }

  // False if it is not so within 20 s.
  bool AwaitHeld(std::size_t connections) {
    return Await([this, connections]()
                     ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return held_.size() == connections; });
  }
  bool AwaitBegun(std::size_t calls) {
    return Await([this, calls]()
                     ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return begun_by_.size() >= calls; });
  }
  // The threads that began calls, in their order.
  std::vector<std::thread::id> begun_by() {
    MutexLock lock(mutex_);
    return begun_by_;
  }
  // How many calls came in the store's own methods.
  int own_calls() {
    MutexLock lock(mutex_);
    return own_calls_;
  }

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind /*kind*/, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    {
      MutexLock lock(mutex_);
      ++own_calls_;
    }
    return (store().*method)(ops);
  }

  std::unique_ptr<HeldConnection> Hold(std::function<void()> wanted) override {
    MutexLock lock(mutex_);
    if (spare_ <= 0) return nullptr;
    return std::make_unique<Held>(*this, std::move(wanted));
  }

 private:
  class Held final : public HeldConnection {
   public:
    Held(HoldingStore& store, std::function<void()> wanted)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(store.mutex_)
        : store_(store), wanted_(std::move(wanted)), arrived_(eventfd(0, EFD_CLOEXEC)) {
      --store_.spare_;
      store_.held_.push_back(this);
      store_.changed_.NotifyAll();
    }
    ~Held() override {
      MutexLock lock(store_.mutex_);
      ++store_.spare_;
      if (is_awaited_) --store_.awaited_;
      std::vector<Held*>& held = store_.held_;
      held.erase(std::find(held.begin(), held.end(), this));
      store_.changed_.NotifyAll();
    }

    void Signal() const { eventfd_write(arrived_.get(), 1); }
    void Want() const { wanted_(); }

    int descriptor() const override {
      MutexLock lock(store_.mutex_);
      if (!std::exchange(is_awaited_, true)) ++store_.awaited_;
      store_.changed_.NotifyAll();
      return arrived_.get();
    }
    bool BeginReserve(absl::Span<const ReserveOp> ops) override {
      reservations_ = ops;
      return Begin();
    }
    bool BeginComplete(absl::Span<const CompleteOp> ops) override {
      completions_ = ops;
      return Begin();
    }
    std::vector<absl::StatusOr<Verdict>> FinishReserve() override {
      return store_.store().Reserve(reservations_);
    }
    std::vector<absl::StatusOr<Completion>> FinishComplete() override {
      return store_.store().Complete(completions_);
    }

   private:
    bool Begin() {
      MutexLock lock(store_.mutex_);
      if (store_.declines_) return false;
      store_.begun_by_.push_back(std::this_thread::get_id());
      store_.changed_.NotifyAll();
      if (!store_.delays_) Signal();
      return true;
    }

    HoldingStore& store_;
    const std::function<void()> wanted_;
    const FileDescriptor arrived_;
    mutable bool is_awaited_ = false;
    absl::Span<const ReserveOp> reservations_;
    absl::Span<const CompleteOp> completions_;
  };

  template <typename Condition>
  bool Await(Condition condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (!condition()) {
      if (!changed_.WaitUntil(lock, deadline)) return condition();
    }
    return true;
  }

  Mutex mutex_;
  CondVar changed_;
  int spare_ ABSL_GUARDED_BY(mutex_);
  bool declines_ ABSL_GUARDED_BY(mutex_) = false;
  bool delays_ ABSL_GUARDED_BY(mutex_) = false;
  int own_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Held*> held_ ABSL_GUARDED_BY(mutex_);
  // The number of connections whose descriptor was requested.
  std::size_t awaited_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread::id> begun_by_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_HOLDING_STORE_H_

#ifndef IDEMPOTENCY_CORE_DATABASE_CONNECTION_POOL_H_
#define IDEMPOTENCY_CORE_DATABASE_CONNECTION_POOL_H_

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "core/backoff.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

struct DatabaseConnectionPoolOptions {
  // At most this many connections at a time.
  int size = 4;
  // The maximum wait of Acquire for a free one.
  absl::Duration acquire_timeout = absl::Seconds(2);
  // The pauses between attempts to connect while the server is down (Backoff).
  absl::Duration min_backoff = absl::Milliseconds(50);
  absl::Duration max_backoff = absl::Milliseconds(500);
};

struct DatabaseConnectionPoolGauges {
  int in_use = 0;
  int idle = 0;
  // Lost, or could not be opened, and not yet replaced.
  int broken = 0;
};

// A fixed number of connections to one database server, opened when first needed. A
// `Connection` has `bool Usable()`; one that is not is dropped and replaced. It also has `bool
// Intact()`: the same by what is known already, without a look at its socket. That is enough for
// one that is returned, since the next caller looks.
//
// While the server is known to be down, one caller at a time tries it, at
// growing intervals; the others fail at once, so that neither threads nor the
// returning server are overloaded by attempts.
//
// Thread-safe; outlives its leases. Connecting, and closing broken connections,
// happens outside the lock.
template <typename Connection>
class DatabaseConnectionPool {
 public:
  using Open = std::function<absl::StatusOr<std::unique_ptr<Connection>>()>;

  // The right to use one connection; returns it when destroyed. Movable;
  // thread-compatible.
  class Lease {
   public:
    Lease(Lease&& other) noexcept = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease() {
      if (connection_ != nullptr) pool_->Return(std::move(connection_));
    }

    // For a holder that keeps the lease while it does not use the connection. `wanted` is called,
    // once, when another caller waits for one: the holder then destroys the lease. It is called
    // under the pool's lock, on that caller's thread. False, and `wanted` is never called, if one
    // waits already.
    bool Offer(std::function<void()> wanted) {
      return pool_->Offer(connection_.get(), std::move(wanted));
    }
    // Before the connection is used again. `wanted` is not called from here on.
    void Withdraw() { pool_->Withdraw(connection_.get()); }

    Connection& operator*() const { return *connection_; }
    Connection* operator->() const { return connection_.get(); }

   private:
    friend class DatabaseConnectionPool;
    Lease(DatabaseConnectionPool* pool, std::unique_ptr<Connection> connection)
        : pool_(pool), connection_(std::move(connection)) {}

    DatabaseConnectionPool* pool_;
    std::unique_ptr<Connection> connection_;
  };

  // `clock` outlives the pool; backoff is counted by its monotonic time.
  DatabaseConnectionPool(const DatabaseConnectionPoolOptions& options, const Clock& clock,
                         Open open)
      : options_(options),
        clock_(clock),
        open_(std::move(open)),
        backoff_(options.min_backoff, options.max_backoff) {}
  DatabaseConnectionPool(const DatabaseConnectionPool&) = delete;
  DatabaseConnectionPool& operator=(const DatabaseConnectionPool&) = delete;

  // UNAVAILABLE / STORE_UNAVAILABLE if no connection gets free in time, or the
  // server is down; then with a retry delay.
  absl::StatusOr<Lease> Acquire() {
    const auto deadline =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(options_.acquire_timeout);
    while (true) {
      absl::StatusOr<std::unique_ptr<Connection>> taken = TakeSlot(deadline);
      if (!taken.ok()) return taken.status();
      if (*taken == nullptr) return Connect();
      if ((*taken)->Usable()) return Lease(this, *std::move(taken));
      taken->reset();
      FreeSlot(nullptr);
    }
  }

  // Returns an idle connection without waiting. nullopt if no connection is idle, or another caller
  // waits for one.
  std::optional<Lease> TryAcquire() {
    std::unique_ptr<Connection> taken;
    {
      MutexLock lock(mutex_);
      if (idle_.empty() || waiting_ > 0) return std::nullopt;
      taken = TakeIdle();
    }
    if (taken->Usable()) return Lease(this, std::move(taken));
    taken.reset();
    FreeSlot(nullptr);
    return std::nullopt;
  }

  // The same for the idle connection that was not used for the longest time, and with its return
  // the last one used: repeated, it comes to each of them.
  std::optional<Lease> TryAcquireOldest() {
    {
      MutexLock lock(mutex_);
      if (idle_.empty() || waiting_ > 0) return std::nullopt;
      std::rotate(idle_.begin(), idle_.begin() + 1, idle_.end());
    }
    return TryAcquire();
  }

  // Offered ones count as idle.
  DatabaseConnectionPoolGauges gauges() const {
    MutexLock lock(mutex_);
    const int offered = static_cast<int>(offered_.size());
    return {in_use_ - offered, static_cast<int>(idle_.size()) + offered, broken_};
  }

 private:
  // A slot for the caller: an idle connection, or nullptr if it is to open one.
  absl::StatusOr<std::unique_ptr<Connection>> TakeSlot(
      std::chrono::steady_clock::time_point deadline) {
    MutexLock lock(mutex_);
    while (true) {
      if (!idle_.empty()) return TakeIdle();
      if (MayConnect()) {
        ++in_use_;
        ++connecting_;
        return std::unique_ptr<Connection>();
      }
      const bool none_to_wait_for = in_use_ == connecting_;
      if (down_ && none_to_wait_for) return Down();
      // After the look at the connections: one that was freed just before the deadline is taken.
      if (std::chrono::steady_clock::now() >= deadline) return Busy();
      RecallOffered();
      ++waiting_;
      freed_.WaitUntil(lock, std::min(deadline, NextAttempt()));
      --waiting_;
    }
  }

  // When a waiter may try to connect, in real time; max() if that is not a matter of time.
  std::chrono::steady_clock::time_point NextAttempt() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (!down_ || connecting_ > 0 || in_use_ >= options_.size) {
      return std::chrono::steady_clock::time_point::max();
    }
    return std::chrono::steady_clock::now() + (next_attempt_ - clock_.Monotonic());
  }

  std::unique_ptr<Connection> TakeIdle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    // The last one used: the other ones may become idle.
    std::unique_ptr<Connection> connection = std::move(idle_.back());
    idle_.pop_back();
    ++in_use_;
    return connection;
  }

  bool Offer(const Connection* connection, std::function<void()> wanted) {
    MutexLock lock(mutex_);
    if (waiting_ > 0) return false;
    offered_.emplace(connection, std::move(wanted));
    return true;
  }

  void Withdraw(const Connection* connection) {
    MutexLock lock(mutex_);
    offered_.erase(connection);
  }

  void RecallOffered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (offered_.empty()) return;
    const auto one = offered_.begin();
    one->second();
    offered_.erase(one);
  }

  bool MayConnect() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (in_use_ >= options_.size) return false;
    if (!down_) return true;
    return connecting_ == 0 && clock_.Monotonic() >= next_attempt_;
  }

  absl::StatusOr<Lease> Connect() {
    absl::StatusOr<std::unique_ptr<Connection>> opened = open_();
    MutexLock lock(mutex_);
    --connecting_;
    freed_.NotifyAll();
    if (opened.ok()) {
      down_ = false;
      backoff_.Reset();
      broken_ = std::max(broken_ - 1, 0);
      return Lease(this, *std::move(opened));
    }
    --in_use_;
    broken_ = std::max(broken_, 1);
    down_ = true;
    next_attempt_ = clock_.Monotonic() + absl::ToChronoNanoseconds(backoff_.Next());
    return Down();
  }

  void Return(std::unique_ptr<Connection> connection) {
    Withdraw(connection.get());
    if (!connection->Intact()) connection.reset();
    FreeSlot(std::move(connection));
  }

  // nullptr: the connection was lost.
  void FreeSlot(std::unique_ptr<Connection> connection) {
    MutexLock lock(mutex_);
    --in_use_;
    if (connection != nullptr) {
      idle_.push_back(std::move(connection));
    } else {
      broken_ = std::min(broken_ + 1, options_.size);
    }
    freed_.NotifyOne();
  }

  absl::Status Down() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return MakeError(Reason::kStoreUnavailable, "the store cannot be reached; retry",
                     RetryAfter(std::max(absl::FromChrono(next_attempt_ - clock_.Monotonic()),
                                         options_.min_backoff)));
  }

  absl::Status Busy() const {
    return MakeError(Reason::kStoreUnavailable, "every connection to the store is busy; retry",
                     RetryAfter(options_.min_backoff));
  }

  const DatabaseConnectionPoolOptions options_;
  const Clock& clock_;
  const Open open_;

  mutable Mutex mutex_;
  CondVar freed_;
  std::vector<std::unique_ptr<Connection>> idle_ ABSL_GUARDED_BY(mutex_);
  // Callers that wait for a connection.
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Connections that callers hold and do not use, and how to recall them.
  absl::flat_hash_map<const Connection*, std::function<void()>> offered_ ABSL_GUARDED_BY(mutex_);
  // Slots held by a caller; of these, those of callers that are connecting.
  int in_use_ ABSL_GUARDED_BY(mutex_) = 0;
  int connecting_ ABSL_GUARDED_BY(mutex_) = 0;
  int broken_ ABSL_GUARDED_BY(mutex_) = 0;
  // The last attempt to connect failed.
  bool down_ ABSL_GUARDED_BY(mutex_) = false;
  std::chrono::steady_clock::time_point next_attempt_ ABSL_GUARDED_BY(mutex_);
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_DATABASE_CONNECTION_POOL_H_

#ifndef IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_
#define IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "core/errors.h"
#include "core/mutex.h"
#include "server/observer.h"
#include "server/store/store.h"

namespace idempotency {

// A store that notes its calls and can be made to hold them back or to fail.
// What gets through is done by another store. Thread-safe.
class GatedStore final : public Store {
 public:
  static constexpr absl::Duration kRetryDelay = absl::Milliseconds(250);

  struct Call {
    OperationKind kind;
    std::vector<RecordId> ids;
  };

  // `store` must outlive this.
  explicit GatedStore(Store& store) : store_(store) {}

  // Calls that come from now on stay until Open(), or until Admit() lets one
  // in.
  void Shut() {
    MutexLock lock(mutex_);
    shut_ = true;
  }
  void Open() {
    MutexLock lock(mutex_);
    shut_ = false;
    changed_.NotifyAll();
  }
  void Admit() {
    MutexLock lock(mutex_);
    ++admitted_;
    changed_.NotifyAll();
  }
  // Every operation of `kind` is answered with an error and kRetryDelay;
  // nullopt ends it.
  void Fail(OperationKind kind, std::optional<Reason> reason) {
    MutexLock lock(mutex_);
    failing_ = kind;
    reason_ = reason;
  }

  // As Fail(), for reads that are to be confirmed and no others.
  void FailConfirmedReads(std::optional<Reason> reason) {
    MutexLock lock(mutex_);
    unconfirmed_ = reason;
  }

  // True once `count` calls have come, held back or not; false after `limit`.
  bool AwaitCalls(std::size_t count,
                  std::chrono::steady_clock::duration limit = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex_);
    while (calls_.size() < count && changed_.WaitUntil(lock, deadline)) {
    }
    return calls_.size() >= count;
  }
  std::vector<Call> calls() {
    MutexLock lock(mutex_);
    return calls_;
  }
  std::size_t CallsOf(OperationKind kind) {
    std::size_t count = 0;
    for (const Call& call : calls()) count += call.kind == kind ? 1 : 0;
    return count;
  }

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override {
    if (auto error = Pass(OperationKind::kReserve, ops)) return {ops.size(), *error};
    return store_.Reserve(ops);
  }
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override {
    if (auto error = Pass(OperationKind::kComplete, ops)) return {ops.size(), *error};
    return store_.Complete(ops);
  }
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override {
    if (auto error = Pass(OperationKind::kRelease, ops)) return {ops.size(), *error};
    return store_.Release(ops);
  }
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override {
    if (auto error = Pass(OperationKind::kExtend, ops)) return {ops.size(), *error};
    return store_.Extend(ops);
  }
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override {
    if (auto error = Pass(OperationKind::kGet, ops)) return {ops.size(), *error};
    const bool confirmed =
        std::any_of(ops.begin(), ops.end(), [](const GetOp& op) { return op.confirmed; });
    if (auto error = confirmed ? Unconfirmed() : std::nullopt) return {ops.size(), *error};
    return store_.Get(ops);
  }
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override { return store_.Sweep(op); }
  absl::StatusOr<StoreGauges> Inspect() override { return store_.Inspect(); }

 private:
  template <typename Op>
  std::optional<absl::Status> Pass(OperationKind kind, absl::Span<const Op> ops) {
    Call call{kind, {}};
    for (const Op& op : ops) call.ids.push_back(op.id);
    MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.NotifyAll();
    while (shut_ && admitted_ == 0) changed_.Wait(lock);
    if (shut_) --admitted_;
    if (failing_ != kind || !reason_.has_value()) return std::nullopt;
    return MakeError(*reason_, "the test made it fail", {kRetryDelay, {}, {}});
  }

  std::optional<absl::Status> Unconfirmed() {
    MutexLock lock(mutex_);
    if (!unconfirmed_.has_value()) return std::nullopt;
    return MakeError(*unconfirmed_, "the test's standby does not confirm", {kRetryDelay, {}, {}});
  }

  Store& store_;
  Mutex mutex_;
  CondVar changed_;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  int admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<OperationKind> failing_ ABSL_GUARDED_BY(mutex_);
  std::optional<Reason> reason_ ABSL_GUARDED_BY(mutex_);
  std::optional<Reason> unconfirmed_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency

#endif  // IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_

#ifndef IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_
#define IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "server/observability/observer.h"
#include "server/store/store.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {

// A store that records its calls and can be made to hold them back, to fail, to answer late, and to
// apply operations when no caller expects them any more. Another store does the work of the
// admitted calls. Thread-safe.
class GatedStore final : public StoreDecorator {
 public:
  static constexpr absl::Duration kRetryDelay = absl::Milliseconds(250);

  struct Call {
    OperationKind kind;
    std::vector<RecordId> ids;
  };

  // `store` must outlive this.
  explicit GatedStore(Store& store) : StoreDecorator(store) {}

  // Later calls stay until Open(), or until Admit() admits one.
  void Shut() {
    MutexLock lock(mutex_);
    shut_ = true;
  }
  void Open() {
    MutexLock lock(mutex_);
    shut_ = false;
    answers_shut_ = false;
    changed_.NotifyAll();
  }
  // Later calls are applied, and their answers stay until Open().
  void ShutAnswers() {
    MutexLock lock(mutex_);
    answers_shut_ = true;
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

  // The fate of an operation that is answered with an error.
  enum class Fate { kNeverHappens, kHappens, kHappensLater };
  // The operations of `kind` on this record are answered STORE_UNAVAILABLE, and no others
  // in their batches.
  void FailOn(OperationKind kind, RecordId id, Fate fate) {
    MutexLock lock(mutex_);
    fates_[{kind, id}] = fate;
  }
  // Later operations get no error. Operations that were to be applied later are applied now.
  void Recover() {
    std::vector<std::function<void()>> later;
    {
      MutexLock lock(mutex_);
      fates_.clear();
      later.swap(later_);
    }
    for (const auto& happen : later) happen();
  }

  // As Fail(), only for reads that are to be confirmed.
  void FailConfirmedReads(std::optional<Reason> reason) {
    MutexLock lock(mutex_);
    unconfirmed_ = reason;
  }

  // True once `count` calls have arrived, held back or not; false after `limit`.
  bool AwaitCalls(std::size_t count,
                  std::chrono::steady_clock::duration limit = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex_);
    while (calls_.size() < count && changed_.WaitUntil(lock, deadline)) {
    }
    return calls_.size() >= count;
  }
  // The same for calls that have been applied, whether they are answered or not. Calls that fail as
  // a whole do not count.
  bool AwaitDone(std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (done_ < count && changed_.WaitUntil(lock, deadline)) {
    }
    return done_ >= count;
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
    return Ask(OperationKind::kReserve, &Store::Reserve, ops);
  }
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override {
    return Ask(OperationKind::kComplete, &Store::Complete, ops);
  }
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override {
    return Ask(OperationKind::kRelease, &Store::Release, ops);
  }
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override {
    return Ask(OperationKind::kExtend, &Store::Extend, ops);
  }
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override {
    const bool confirmed =
        std::any_of(ops.begin(), ops.end(), [](const GetOp& op) { return op.confirmed; });
    if (auto error = confirmed ? Unconfirmed() : std::nullopt) {
      Pass(OperationKind::kGet, ops);
      return {ops.size(), *error};
    }
    return Ask(OperationKind::kGet, &Store::Get, ops);
  }

 private:
  template <typename Op, typename Answer>
  std::vector<Answer> Ask(OperationKind kind,
                          std::vector<Answer> (Store::*call)(absl::Span<const Op>),
                          absl::Span<const Op> ops) {
    if (auto error = Pass(kind, ops)) return std::vector<Answer>(ops.size(), Answer(*error));
    std::vector<Answer> answers;
    std::vector<Op> asked;
    std::vector<std::size_t> heard;
    for (const Op& op : ops) {
      answers.emplace_back(MakeError(Reason::kStoreUnavailable, "the test made it fail"));
      const std::optional<Fate> fate = FateOf(kind, op.id);
      if (fate == Fate::kHappensLater) {
        MutexLock lock(mutex_);
        later_.push_back([this, call, op] { (inner().*call)(absl::MakeConstSpan(&op, 1)); });
      }
      if (fate == Fate::kHappens) (inner().*call)(absl::MakeConstSpan(&op, 1));
      if (fate.has_value()) continue;
      asked.push_back(op);
      heard.push_back(answers.size() - 1);
    }
    if (!asked.empty()) {
      std::vector<Answer> given = (inner().*call)(asked);
      for (std::size_t i = 0; i < given.size(); ++i) answers[heard[i]] = std::move(given[i]);
    }
    MutexLock lock(mutex_);
    ++done_;
    changed_.NotifyAll();
    while (answers_shut_) changed_.Wait(lock);
    return answers;
  }

  std::optional<Fate> FateOf(OperationKind kind, RecordId id) {
    MutexLock lock(mutex_);
    const auto found = fates_.find({kind, id});
    return found == fates_.end() ? std::nullopt : std::optional<Fate>(found->second);
  }

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

  Mutex mutex_;
  CondVar changed_;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  bool answers_shut_ ABSL_GUARDED_BY(mutex_) = false;
  std::size_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<OperationKind, RecordId>, Fate> fates_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> later_ ABSL_GUARDED_BY(mutex_);
  int admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<OperationKind> failing_ ABSL_GUARDED_BY(mutex_);
  std::optional<Reason> reason_ ABSL_GUARDED_BY(mutex_);
  std::optional<Reason> unconfirmed_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_

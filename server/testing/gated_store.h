#ifndef IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_
#define IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/types/span.h"

#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "server/observability/operation_kind.h"
#include "server/testing/store_decorator.h"

namespace idempotency::internal {

// A store that records its calls and can be made to hold them back, to fail, to answer late or
// something else, and to apply operations when no caller expects them any more. Another store does
// the work of the admitted calls. Thread-safe.
class GatedStore final : public StoreDecorator<GatedStore> {
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
    answers_shut_.clear();
    changed_.NotifyAll();
  }
  // Later calls are applied, and their answers stay until OpenAnswers() or Open().
  void ShutAnswers() {
    for (const OperationKind kind : kAllOperationKinds) ShutAnswers(kind);
  }
  void ShutAnswers(OperationKind kind) {
    MutexLock lock(mutex_);
    answers_shut_.insert(kind);
  }
  void OpenAnswers() {
    MutexLock lock(mutex_);
    answers_shut_.clear();
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

  // Changes every record that is read later, as `change` does.
  void ChangeRecords(std::function<void(Record&)> change) {
    MutexLock lock(mutex_);
    change_ = std::move(change);
  }
  // Answers later sweeps in place of the store.
  void AnswerSweeps(std::function<absl::StatusOr<SweepProgress>(const SweepOp&)> sweep) {
    MutexLock lock(mutex_);
    sweep_ = std::move(sweep);
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
  bool AwaitDone(std::size_t count) { return AwaitDone(kAllOperationKinds, count); }
  // The same for the calls of one kind.
  bool AwaitDone(OperationKind kind, std::size_t count) { return AwaitDone({&kind, 1}, count); }
  std::vector<Call> calls() {
    MutexLock lock(mutex_);
    return calls_;
  }
  std::size_t CallsOf(OperationKind kind) {
    std::size_t count = 0;
    for (const Call& call : calls()) count += call.kind == kind ? 1 : 0;
    return count;
  }

  // Comparisons of a record with a request.
  std::size_t comparisons() const { return comparisons_.load(); }

  FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const override {
    ++comparisons_;
    return store().MatchRequest(record, op);
  }
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override {
    std::function<absl::StatusOr<SweepProgress>(const SweepOp&)> scripted;
    {
      MutexLock lock(mutex_);
      scripted = sweep_;
    }
    return scripted != nullptr ? scripted(op) : store().Sweep(op);
  }

 private:
  friend class StoreDecorator<GatedStore>;

  template <typename Op, typename Answer>
  std::vector<Answer> Around(OperationKind kind, StoreMethod<Op, Answer> method,
                             absl::Span<const Op> ops) {
    if (auto error = Pass(kind, ops)) return std::vector<Answer>(ops.size(), Answer(*error));
    std::vector<Answer> answers;
    std::vector<Op> passed;
    std::vector<std::size_t> places;
    for (const Op& op : ops) {
      answers.emplace_back(MakeError(Reason::kStoreUnavailable, "the test made it fail"));
      const std::optional<Fate> fate = FateOf(kind, op.id);
      if (fate == Fate::kHappensLater) {
        MutexLock lock(mutex_);
        later_.push_back([this, method, op] { (store().*method)(absl::MakeConstSpan(&op, 1)); });
      }
      if (fate == Fate::kHappens) (store().*method)(absl::MakeConstSpan(&op, 1));
      if (fate.has_value()) continue;
      passed.push_back(op);
      places.push_back(answers.size() - 1);
    }
    if (!passed.empty()) {
      std::vector<Answer> given = (store().*method)(passed);
      for (std::size_t i = 0; i < given.size(); ++i) answers[places[i]] = std::move(given[i]);
    }
    Change(answers);
    MutexLock lock(mutex_);
    ++done_[kind];
    changed_.NotifyAll();
    while (answers_shut_.count(kind) != 0) changed_.Wait(lock);
    return answers;
  }

  template <typename Answer>
  void Change(std::vector<Answer>&) {}
  void Change(std::vector<absl::StatusOr<Record>>& records) {
    std::function<void(Record&)> change;
    {
      MutexLock lock(mutex_);
      change = change_;
    }
    if (change == nullptr) return;
    for (auto& record : records) {
      if (record.ok()) change(*record);
    }
  }

  bool AwaitDone(absl::Span<const OperationKind> kinds, std::size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    MutexLock lock(mutex_);
    while (Done(kinds) < count && changed_.WaitUntil(lock, deadline)) {
    }
    return Done(kinds) >= count;
  }
  std::size_t Done(absl::Span<const OperationKind> kinds) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::size_t done = 0;
    for (const OperationKind kind : kinds) done += done_[kind];
    return done;
  }

  std::optional<Fate> FateOf(OperationKind kind, RecordId id) {
    MutexLock lock(mutex_);
    const auto found = fates_.find({kind, id});
    return found == fates_.end() ? std::nullopt : std::optional<Fate>(found->second);
  }

  template <typename Op>
  std::optional<absl::Status> Pass(OperationKind kind, absl::Span<const Op> ops) {
    Call call{kind, {}};
    bool confirmed = false;
    for (const Op& op : ops) {
      call.ids.push_back(op.id);
      if constexpr (std::is_same_v<Op, GetOp>) confirmed = confirmed || op.confirmed;
    }
    MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.NotifyAll();
    while (shut_ && admitted_ == 0) changed_.Wait(lock);
    if (shut_) --admitted_;
    if (confirmed && unconfirmed_.has_value()) {
      return MakeError(*unconfirmed_, "the test's standby does not confirm", {kRetryDelay, {}, {}});
    }
    if (failing_ != kind || !reason_.has_value()) return std::nullopt;
    return MakeError(*reason_, "the test made it fail", {kRetryDelay, {}, {}});
  }

  mutable std::atomic<std::size_t> comparisons_{0};

  Mutex mutex_;
  CondVar changed_;
  bool shut_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<OperationKind> answers_shut_ ABSL_GUARDED_BY(mutex_);
  std::map<OperationKind, std::size_t> done_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<OperationKind, RecordId>, Fate> fates_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> later_ ABSL_GUARDED_BY(mutex_);
  int admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<OperationKind> failing_ ABSL_GUARDED_BY(mutex_);
  std::optional<Reason> reason_ ABSL_GUARDED_BY(mutex_);
  std::optional<Reason> unconfirmed_ ABSL_GUARDED_BY(mutex_);
  std::function<void(Record&)> change_ ABSL_GUARDED_BY(mutex_);
  std::function<absl::StatusOr<SweepProgress>(const SweepOp&)> sweep_ ABSL_GUARDED_BY(mutex_);
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_TESTING_GATED_STORE_H_

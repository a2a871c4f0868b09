#ifndef IDEMPOTENCY_SERVER_SERVICE_DEFERRED_STORE_H_
#define IDEMPOTENCY_SERVER_SERVICE_DEFERRED_STORE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "core/mutex.h"
#include "server/store/store.h"

namespace idempotency::internal {

// A store that opens another one, now or later: the daemon starts while its
// database is still down, and no statement runs before the schema was checked.
//
// Until it is open every operation answers STORE_UNAVAILABLE. Inspect() tries
// to open it, so the store monitor also opens the store.
//
// Thread-safe.
class DeferredStore : public Store {
 public:
  // Opens the store and checks that it can be used. After any failure it is
  // called again with the next Inspect().
  using Open = std::function<absl::StatusOr<std::unique_ptr<Store>>()>;

  explicit DeferredStore(Open open);
  ~DeferredStore() override;

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  SharedAnswers CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                   absl::Span<const ReserveOp> reservations) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const override;
  std::unique_ptr<HeldConnection> Hold(std::function<void()> wanted) override;

  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override;
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override;
  // The error of opening it, while it is not open.
  absl::StatusOr<StoreGauges> Inspect() override;

  absl::StatusOr<RecordPage> List(const ListOp& op) override;
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override;
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override;
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override;
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override;

 private:
  // nullptr while it is not open.
  Store* opened() const { return opened_.load(std::memory_order_acquire); }
  absl::StatusOr<Store*> OpenOnce();
  // A method of the other store, for each operation of a batch and for one operation.
  template <typename Answer, typename Op>
  std::vector<Answer> Forward(std::vector<Answer> (RecordStore::*method)(absl::Span<const Op>),
                              absl::Span<const Op> ops);
  template <typename Role, typename Answer, typename Op>
  absl::StatusOr<Answer> Forward(absl::StatusOr<Answer> (Role::*method)(const Op&), const Op& op);

  Mutex mutex_;
  Open open_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Store> store_ ABSL_GUARDED_BY(mutex_);
  // store_.get(), for operations, which do not wait for an attempt to open.
  std::atomic<Store*> opened_ = nullptr;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_DEFERRED_STORE_H_

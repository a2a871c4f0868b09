#ifndef IDEMPOTENCY_SERVER_WORLDS_WORLD_STORE_H_
#define IDEMPOTENCY_SERVER_WORLDS_WORLD_STORE_H_

#include <cstddef>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "server/store/memory/memory_store.h"
#include "server/store/store.h"

namespace idempotency::internal {

// A MemoryStore that can be emptied, and that is bounded: new records, replies and checkpoints
// above the bounds are answered RESOURCE_EXHAUSTED / QUOTA_EXCEEDED. What has expired counts
// until Reset(). Thread-safe.
class WorldStore final : public Store {
 public:
  struct Limits {
    std::size_t records = 10'000;
    // The size of keys, labels, replies and checkpoints.
    std::size_t bytes = std::size_t{64} * 1024 * 1024;
  };

  // `clock` outlives the store.
  WorldStore(const Clock& clock, const Limits& limits);

  // Forgets every record. A batch in progress may still change the forgotten ones.
  void Reset() ABSL_LOCKS_EXCLUDED(mutex_);
  // Sweeps until nothing more is expired.
  absl::Status SweepAll();

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override { return Memory()->Sweep(op); }
  absl::StatusOr<RecordPage> List(const ListOp& op) override { return Memory()->List(op); }
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override { return Memory()->Resolve(op); }
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override { return Memory()->Purge(op); }
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override { return Memory()->Reseal(op); }
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override {
    return Memory()->ReadAudit(op);
  }
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override {
    return Memory()->MeasureUsage(op);
  }
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override {
    return Memory()->EndUnknown(op);
  }
  absl::StatusOr<StoreGauges> Inspect() override { return Memory()->Inspect(); }

 private:
  std::shared_ptr<MemoryStore> Memory() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts what an operation would store. QUOTA_EXCEEDED if there is no room for it.
  absl::Status Admit(const ReserveOp& op) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Admit(const CompleteOp& op) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Admit(const ExtendOp& op) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Count(std::size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers the operations that are admitted by `call`, the others by their refusal.
  template <typename Answer, typename Op, typename Call>
  std::vector<Answer> Admitted(absl::Span<const Op> ops, Call call);

  const Clock& clock_;
  const Limits limits_;
  mutable Mutex mutex_;
  std::shared_ptr<MemoryStore> memory_ ABSL_GUARDED_BY(mutex_);
  std::set<RecordId> known_ ABSL_GUARDED_BY(mutex_);
  std::size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_WORLDS_WORLD_STORE_H_

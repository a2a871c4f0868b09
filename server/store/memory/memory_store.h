#ifndef IDEMPOTENCY_SERVER_STORE_MEMORY_MEMORY_STORE_H_
#define IDEMPOTENCY_SERVER_STORE_MEMORY_MEMORY_STORE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"

#include "core/clock.h"
#include "core/mutex.h"
#include "core/sha256.h"
#include "server/store/limits.h"
#include "server/store/store.h"

namespace idempotency::internal {

// The reference model: the table of states and verdicts written as literally as
// C++ allows, in a map under one lock. The other stores are compared with it,
// so it shares no decision with them and is written for reading, not for speed.
// Its records end with it.
//
// Thread-safe.
class MemoryStore final : public Store {
 public:
  // `clock` outlives the store, and may step back by `clock_step_margin`.
  explicit MemoryStore(const Clock& clock,
                       absl::Duration clock_step_margin = limits::kClockStepMargin)
      : clock_(clock), clock_step_margin_(clock_step_margin) {}

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  absl::StatusOr<SweepProgress> Sweep(const SweepOp& op) override;
  absl::StatusOr<RecordPage> List(const ListOp& op) override;
  absl::StatusOr<Resolution> Resolve(const ResolveOp& op) override;
  absl::StatusOr<PurgeStep> Purge(const PurgeOp& op) override;
  absl::StatusOr<ResealStep> Reseal(const ResealOp& op) override;
  absl::StatusOr<AuditPage> ReadAudit(const AuditOp& op) override;
  absl::StatusOr<UsageStep> MeasureUsage(const UsageOp& op) override;
  absl::StatusOr<EndUnknownStep> EndUnknown(const EndUnknownOp& op) override;
  absl::StatusOr<StoreGauges> Inspect() override;

 private:
  struct Row {
    Record record;
    // Of the current or last grant.
    std::optional<Uuid> request_token;
    bool recovering = false;
    PreviousAttempt previous_attempt = PreviousAttempt::kNone;
    std::string checkpoint;
    absl::Duration tombstone;
    // The digest of the reply as it was completed: the sweep may have dropped its content.
    Sha256Digest completed_digest{};
    bool reply_dropped = false;
  };

  absl::StatusOr<Verdict> ReserveOne(const ReserveOp& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Verdict> ReserveForgotten(const ReserveOp& op, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Verdict> ReserveLapsed(const ReserveOp& op, absl::Time now, Row& row);
  absl::StatusOr<Completion> CompleteOne(const CompleteOp& op)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status ReleaseOne(const ReleaseOp& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Extension> ExtendOne(const ExtendOp& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Record> GetOne(const GetOp& op) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if the row is to be removed.
  bool SweepOne(std::map<RecordId, Row>::iterator it, absl::Time now, SweepProgress& progress);
  absl::StatusOr<PurgeStep> PurgeOne(const PurgeOp& op, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget(const PurgeOp& op, const RecordId& id, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void LeaveTombstone(Row& row, absl::Duration tombstone, absl::Time now);
  // The next records of `op`, and what `step` has of reading them.
  std::vector<StoredContent> ReadContents(const ResealOp& op, ResealStep& step);
  // The record, or nullptr if a part of it is not as it was read: then nothing is changed.
  const Record* ReplaceContent(const ContentReplacement& replacement)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds an entry to the audit log.
  AuditEntry& Note(const AdminNote& note, AuditAction action, bool forced, const Record& before,
                   absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The row under `id`, nullptr if there is none; forgotten or not.
  Row* Find(const RecordId& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  const absl::Duration clock_step_margin_;
  Mutex mutex_;
  std::map<RecordId, Row> rows_ ABSL_GUARDED_BY(mutex_);
  const std::string audit_key_ = Uuid::Random().ToString();
  std::vector<AuditEntry> audit_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_MEMORY_MEMORY_STORE_H_

#ifndef IDEMPOTENCY_SERVER_SERVICE_READ_ONLY_STORE_H_
#define IDEMPOTENCY_SERVER_SERVICE_READ_ONLY_STORE_H_

#include <memory>
#include <vector>

#include "server/store/store.h"

namespace idempotency::internal {

// Reads another store: records, pages of them, the audit log. Every operation that could write is
// answered STORE_UNAVAILABLE, with the reason, and does not reach the other store. Replays are
// refused too: a standby may have records that a failover takes back.
//
// Thread-safe, as the other store is.
class ReadOnlyStore final : public Store {
 public:
  explicit ReadOnlyStore(std::unique_ptr<Store> store);

  std::vector<absl::StatusOr<Verdict>> Reserve(absl::Span<const ReserveOp> ops) override;
  std::vector<absl::StatusOr<Completion>> Complete(absl::Span<const CompleteOp> ops) override;
  std::vector<absl::Status> Release(absl::Span<const ReleaseOp> ops) override;
  std::vector<absl::StatusOr<Extension>> Extend(absl::Span<const ExtendOp> ops) override;
  std::vector<absl::StatusOr<Record>> Get(absl::Span<const GetOp> ops) override;
  FingerprintMatch MatchRequest(const Record& record, const ReserveOp& op) const override;
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
  const std::unique_ptr<Store> store_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SERVICE_READ_ONLY_STORE_H_

#include "server/service/read_only_store.h"

#include <utility>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

absl::Status Refused() {
  return MakeError(Reason::kStoreUnavailable,
                   "this idempotencyd is read-only (--read_only): it answers Get, List and "
                   "ListAudit",
                   RetryAfter(retry_delays::kReadOnly));
}

}  // namespace

ReadOnlyStore::ReadOnlyStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}

std::vector<absl::StatusOr<Verdict>> ReadOnlyStore::Reserve(absl::Span<const ReserveOp> ops) {
  return std::vector<absl::StatusOr<Verdict>>(ops.size(), Refused());
}

std::vector<absl::StatusOr<Completion>> ReadOnlyStore::Complete(absl::Span<const CompleteOp> ops) {
  return std::vector<absl::StatusOr<Completion>>(ops.size(), Refused());
}

std::vector<absl::Status> ReadOnlyStore::Release(absl::Span<const ReleaseOp> ops) {
  return std::vector<absl::Status>(ops.size(), Refused());
}

std::vector<absl::StatusOr<Extension>> ReadOnlyStore::Extend(absl::Span<const ExtendOp> ops) {
  return std::vector<absl::StatusOr<Extension>>(ops.size(), Refused());
}

std::vector<absl::StatusOr<Record>> ReadOnlyStore::Get(absl::Span<const GetOp> ops) {
  return store_->Get(ops);
}

FingerprintMatch ReadOnlyStore::MatchRequest(const Record& record, const ReserveOp& op) const {
  return store_->MatchRequest(record, op);
}

absl::StatusOr<SweepProgress> ReadOnlyStore::Sweep(const SweepOp& /*op*/) { return Refused(); }

absl::StatusOr<RecordPage> ReadOnlyStore::List(const ListOp& op) { return store_->List(op); }

absl::StatusOr<Resolution> ReadOnlyStore::Resolve(const ResolveOp& /*op*/) { return Refused(); }

absl::StatusOr<PurgeStep> ReadOnlyStore::Purge(const PurgeOp& /*op*/) { return Refused(); }

absl::StatusOr<ResealStep> ReadOnlyStore::Reseal(const ResealOp& /*op*/) { return Refused(); }

absl::StatusOr<AuditPage> ReadOnlyStore::ReadAudit(const AuditOp& op) {
  return store_->ReadAudit(op);
}

absl::StatusOr<UsageStep> ReadOnlyStore::MeasureUsage(const UsageOp& op) {
  return store_->MeasureUsage(op);
}

absl::StatusOr<EndUnknownStep> ReadOnlyStore::EndUnknown(const EndUnknownOp& /*op*/) {
  return Refused();
}

absl::StatusOr<StoreGauges> ReadOnlyStore::Inspect() { return store_->Inspect(); }

}  // namespace idempotency::internal

#include "server/service/deferred_store.h"

#include <utility>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

absl::Status NotOpen() {
  return MakeError(Reason::kStoreUnavailable, "the store cannot be reached yet; try again",
                   RetryAfter(retry_delays::kUnavailable));
}

}  // namespace

DeferredStore::DeferredStore(Open open) : open_(std::move(open)) {}

DeferredStore::~DeferredStore() = default;

absl::StatusOr<Store*> DeferredStore::OpenOnce() {
  MutexLock lock(mutex_);
  if (store_ == nullptr) {
    absl::StatusOr<std::unique_ptr<Store>> store = open_();
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    opened_.store(store_.get(), std::memory_order_release);
  }
  return store_.get();
}

template <typename Answer, typename Op>
std::vector<Answer> DeferredStore::Forward(
    std::vector<Answer> (RecordStore::*method)(absl::Span<const Op>), absl::Span<const Op> ops) {
  Store* const store = opened();
  if (store != nullptr) return (store->*method)(ops);
  return std::vector<Answer>(ops.size(), NotOpen());
}

template <typename Role, typename Answer, typename Op>
absl::StatusOr<Answer> DeferredStore::Forward(absl::StatusOr<Answer> (Role::*method)(const Op&),
                                              const Op& op) {
  Store* const store = opened();
  if (store != nullptr) return (store->*method)(op);
  return NotOpen();
}

// Records.

std::vector<absl::StatusOr<Verdict>> DeferredStore::Reserve(absl::Span<const ReserveOp> ops) {
  return Forward(&RecordStore::Reserve, ops);
}

std::vector<absl::StatusOr<Completion>> DeferredStore::Complete(absl::Span<const CompleteOp> ops) {
  return Forward(&RecordStore::Complete, ops);
}

SharedAnswers DeferredStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                                absl::Span<const ReserveOp> reservations) {
  Store* const store = opened();
  if (store != nullptr) return store->CompleteAndReserve(completions, reservations);
  return RecordStore::CompleteAndReserve(completions, reservations);
}

std::vector<absl::Status> DeferredStore::Release(absl::Span<const ReleaseOp> ops) {
  return Forward(&RecordStore::Release, ops);
}

std::vector<absl::StatusOr<Extension>> DeferredStore::Extend(absl::Span<const ExtendOp> ops) {
  return Forward(&RecordStore::Extend, ops);
}

std::vector<absl::StatusOr<Record>> DeferredStore::Get(absl::Span<const GetOp> ops) {
  return Forward(&RecordStore::Get, ops);
}

FingerprintMatch DeferredStore::MatchRequest(const Record& record, const ReserveOp& op) const {
  Store* const store = opened();
  return store == nullptr ? RecordStore::MatchRequest(record, op) : store->MatchRequest(record, op);
}

std::unique_ptr<HeldConnection> DeferredStore::Hold(std::function<void()> wanted) {
  Store* const store = opened();
  return store == nullptr ? nullptr : store->Hold(std::move(wanted));
}

// Maintenance.

absl::StatusOr<SweepProgress> DeferredStore::Sweep(const SweepOp& op) {
  return Forward(&MaintenanceStore::Sweep, op);
}

absl::StatusOr<EndUnknownStep> DeferredStore::EndUnknown(const EndUnknownOp& op) {
  return Forward(&MaintenanceStore::EndUnknown, op);
}

absl::StatusOr<UsageStep> DeferredStore::MeasureUsage(const UsageOp& op) {
  return Forward(&MaintenanceStore::MeasureUsage, op);
}

absl::StatusOr<StoreGauges> DeferredStore::Inspect() {
  Store* store = opened();
  if (store == nullptr) {
    absl::StatusOr<Store*> opened = OpenOnce();
    if (!opened.ok()) return opened.status();
    store = *opened;
  }
  return store->Inspect();
}

// Administration.

absl::StatusOr<RecordPage> DeferredStore::List(const ListOp& op) {
  return Forward(&AdminStore::List, op);
}

absl::StatusOr<Resolution> DeferredStore::Resolve(const ResolveOp& op) {
  return Forward(&AdminStore::Resolve, op);
}

absl::StatusOr<PurgeStep> DeferredStore::Purge(const PurgeOp& op) {
  return Forward(&AdminStore::Purge, op);
}

absl::StatusOr<ResealStep> DeferredStore::Reseal(const ResealOp& op) {
  return Forward(&AdminStore::Reseal, op);
}

absl::StatusOr<AuditPage> DeferredStore::ReadAudit(const AuditOp& op) {
  return Forward(&AdminStore::ReadAudit, op);
}

}  // namespace idempotency::internal

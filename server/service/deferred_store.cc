#include "server/service/deferred_store.h"

#include <utility>

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

absl::Status NotOpen() {
  ErrorDetails details;
  details.retry_delay = retry_delays::kUnavailable;
  return MakeError(Reason::kStoreUnavailable, "the store cannot be reached yet; try again",
                   std::move(details));
}

}  // namespace

DeferredStore::DeferredStore(Open open) : open_(std::move(open)) {}

DeferredStore::~DeferredStore() = default;

std::vector<absl::StatusOr<Verdict>> DeferredStore::Reserve(absl::Span<const ReserveOp> ops) {
  Store* const store = opened();
  if (store != nullptr) return store->Reserve(ops);
  return std::vector<absl::StatusOr<Verdict>>(ops.size(), NotOpen());
}

std::vector<absl::StatusOr<Completion>> DeferredStore::Complete(absl::Span<const CompleteOp> ops) {
  Store* const store = opened();
  if (store != nullptr) return store->Complete(ops);
  return std::vector<absl::StatusOr<Completion>>(ops.size(), NotOpen());
}

SharedAnswers DeferredStore::CompleteAndReserve(absl::Span<const CompleteOp> completions,
                                                absl::Span<const ReserveOp> reservations) {
  Store* const store = opened();
  if (store != nullptr) return store->CompleteAndReserve(completions, reservations);
  return Store::CompleteAndReserve(completions, reservations);
}

std::vector<absl::Status> DeferredStore::Release(absl::Span<const ReleaseOp> ops) {
  Store* const store = opened();
  if (store != nullptr) return store->Release(ops);
  return std::vector<absl::Status>(ops.size(), NotOpen());
}

std::vector<absl::StatusOr<Extension>> DeferredStore::Extend(absl::Span<const ExtendOp> ops) {
  Store* const store = opened();
  if (store != nullptr) return store->Extend(ops);
  return std::vector<absl::StatusOr<Extension>>(ops.size(), NotOpen());
}

std::vector<absl::StatusOr<Record>> DeferredStore::Get(absl::Span<const GetOp> ops) {
  Store* const store = opened();
  if (store != nullptr) return store->Get(ops);
  return std::vector<absl::StatusOr<Record>>(ops.size(), NotOpen());
}

FingerprintMatch DeferredStore::MatchRequest(const Record& record, const ReserveOp& op) const {
  Store* const store = opened();
  return store == nullptr ? Store::MatchRequest(record, op) : store->MatchRequest(record, op);
}

absl::StatusOr<SweepProgress> DeferredStore::Sweep(const SweepOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->Sweep(op);
  return NotOpen();
}

absl::StatusOr<RecordPage> DeferredStore::List(const ListOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->List(op);
  return NotOpen();
}

absl::StatusOr<Resolution> DeferredStore::Resolve(const ResolveOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->Resolve(op);
  return NotOpen();
}

absl::StatusOr<PurgeStep> DeferredStore::Purge(const PurgeOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->Purge(op);
  return NotOpen();
}

absl::StatusOr<ResealStep> DeferredStore::Reseal(const ResealOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->Reseal(op);
  return NotOpen();
}

absl::StatusOr<AuditPage> DeferredStore::ReadAudit(const AuditOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->ReadAudit(op);
  return NotOpen();
}

absl::StatusOr<UsageStep> DeferredStore::MeasureUsage(const UsageOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->MeasureUsage(op);
  return NotOpen();
}

absl::StatusOr<EndUnknownStep> DeferredStore::EndUnknown(const EndUnknownOp& op) {
  Store* const store = opened();
  if (store != nullptr) return store->EndUnknown(op);
  return NotOpen();
}

std::unique_ptr<HeldSession> DeferredStore::Hold(std::function<void()> wanted) {
  Store* const store = opened();
  return store == nullptr ? nullptr : store->Hold(std::move(wanted));
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

}  // namespace idempotency::internal

#include "tests/conformance/store_behind.h"

#include <variant>

#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {

void StoreBehind::Announce(const RecordKey& key, const RecordId& id) {
  const RecordId own = RecordIdFor(key);
  MutexLock lock(mutex_);
  if (id == own) {
    ids_.erase(own);
  } else {
    ids_[own] = id;
  }
}

void StoreBehind::AnnounceWindow(const RecordKey& key, absl::Duration window) {
  const RecordId own = RecordIdFor(key);
  MutexLock lock(mutex_);
  // The service's own window reaches the store by itself.
  if (window == limits::kDefaultWindow) {
    windows_.erase(own);
  } else {
    windows_[own] = window;
  }
}

void StoreBehind::AnnounceOnlyExisting(const RecordKey& key, bool only_existing) {
  MutexLock lock(mutex_);
  if (only_existing) {
    only_existing_.insert(RecordIdFor(key));
  } else {
    only_existing_.erase(RecordIdFor(key));
  }
}

std::optional<StoreBehind::ReservedMarks> StoreBehind::MarksOfGrant(const Uuid& token) {
  MutexLock lock(mutex_);
  return Find(grants_, token);
}

std::optional<StoreBehind::CompletionMarks> StoreBehind::MarksOfCompletion(const Uuid& token) {
  MutexLock lock(mutex_);
  return Find(completions_, token);
}

bool StoreBehind::MarkedUnknown(const RecordId& id) {
  MutexLock lock(mutex_);
  return marked_unknown_.count(id) > 0;
}

StoreBehind::Totals StoreBehind::Tally() {
  MutexLock lock(mutex_);
  return totals_;
}

void StoreBehind::Note(const ReserveOp& op, const absl::StatusOr<Verdict>& answer) {
  const auto* const unknown = answer.ok() ? std::get_if<OutcomeUnknown>(&*answer) : nullptr;
  marked_unknown_.erase(op.id);
  if (unknown != nullptr && unknown->marked) {
    marked_unknown_.insert(op.id);
    ++totals_.marked_unknown;
  }
  const Reserved* const reserved = answer.ok() ? std::get_if<Reserved>(&*answer) : nullptr;
  if (reserved == nullptr) return;
  grants_[reserved->token] = {reserved->took_over, reserved->after_expiry, reserved->repeated};
  totals_.took_over += reserved->took_over ? 1 : 0;
  totals_.after_expiry += reserved->after_expiry ? 1 : 0;
  totals_.repeated += reserved->repeated ? 1 : 0;
}

void StoreBehind::Note(const CompleteOp& op, const absl::StatusOr<Completion>& answer) {
  if (!answer.ok()) return;
  completions_[op.token] = {answer->lease_overrun, answer->repeated};
  totals_.lease_overruns += answer->lease_overrun && !answer->repeated ? 1 : 0;
}

void StoreBehind::Note(const ReleaseOp& op, const absl::Status& answer) {
  if (answer.ok() && op.outcome_unknown) ++totals_.marked_unknown;
}

}  // namespace idempotency::internal

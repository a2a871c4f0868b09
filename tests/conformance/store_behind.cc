#include "tests/conformance/store_behind.h"

#include <variant>

#include "grpc_idempotency/record_key.h"

namespace idempotency::internal {
namespace {

template <typename Map>
std::optional<typename Map::mapped_type> Find(const Map& map, const Uuid& key) {
  const auto it = map.find(key);
  if (it == map.end()) return std::nullopt;
  return it->second;
}

}  // namespace

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

std::optional<StoreBehind::ReservedMarks> StoreBehind::MarksOfGrant(const Uuid& token) {
  MutexLock lock(mutex_);
  return Find(grants_, token);
}

std::optional<StoreBehind::CompletionMarks> StoreBehind::MarksOfCompletion(const Uuid& token) {
  MutexLock lock(mutex_);
  return Find(completions_, token);
}

StoreBehind::Totals StoreBehind::Tally() {
  MutexLock lock(mutex_);
  return totals_;
}

template <typename Op>
std::vector<Op> StoreBehind::UnderTheirIds(absl::Span<const Op> ops) {
  std::vector<Op> changed(ops.begin(), ops.end());
  MutexLock lock(mutex_);
  for (Op& op : changed) {
    if (const auto id = Find(ids_, op.id)) op.id = *id;
  }
  return changed;
}

std::vector<absl::StatusOr<Verdict>> StoreBehind::Reserve(absl::Span<const ReserveOp> ops) {
  std::vector<ReserveOp> changed = UnderTheirIds(ops);
  {
    MutexLock lock(mutex_);
    for (std::size_t i = 0; i < ops.size(); ++i) {
      if (const auto window = Find(windows_, ops[i].id)) changed[i].window = *window;
    }
  }
  std::vector<absl::StatusOr<Verdict>> answers = inner().Reserve(changed);
  MutexLock lock(mutex_);
  for (const absl::StatusOr<Verdict>& answer : answers) {
    const Reserved* const reserved = answer.ok() ? std::get_if<Reserved>(&*answer) : nullptr;
    if (reserved == nullptr) continue;
    grants_[reserved->token] = {reserved->took_over, reserved->after_expiry, reserved->repeated};
    totals_.took_over += reserved->took_over ? 1 : 0;
    totals_.after_expiry += reserved->after_expiry ? 1 : 0;
    totals_.repeated += reserved->repeated ? 1 : 0;
  }
  return answers;
}

std::vector<absl::StatusOr<Completion>> StoreBehind::Complete(absl::Span<const CompleteOp> ops) {
  std::vector<absl::StatusOr<Completion>> answers = inner().Complete(UnderTheirIds(ops));
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (!answers[i].ok()) continue;
    const Completion& completion = *answers[i];
    completions_[ops[i].token] = {completion.lease_overrun, completion.repeated};
    totals_.lease_overruns += completion.lease_overrun && !completion.repeated ? 1 : 0;
  }
  return answers;
}

std::vector<absl::Status> StoreBehind::Release(absl::Span<const ReleaseOp> ops) {
  return inner().Release(UnderTheirIds(ops));
}

std::vector<absl::StatusOr<Extension>> StoreBehind::Extend(absl::Span<const ExtendOp> ops) {
  return inner().Extend(UnderTheirIds(ops));
}

std::vector<absl::StatusOr<Record>> StoreBehind::Get(absl::Span<const GetOp> ops) {
  return inner().Get(UnderTheirIds(ops));
}

}  // namespace idempotency::internal

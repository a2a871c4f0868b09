#include "server/worlds/world_store.h"

#include <utility>

#include "grpc_idempotency/errors.h"
#include "server/queue/batcher.h"

namespace idempotency::internal {

WorldStore::WorldStore(const Clock& clock, const Limits& limits)
    : clock_(clock), limits_(limits), memory_(std::make_shared<MemoryStore>(clock)) {}

void WorldStore::Reset() {
  auto empty = std::make_shared<MemoryStore>(clock_);
  std::set<RecordId> nothing;
  MutexLock lock(mutex_);
  memory_.swap(empty);
  known_.swap(nothing);
  bytes_ = 0;
}

absl::Status WorldStore::SweepAll() {
  SweepOp op;
  do {
    const absl::StatusOr<SweepProgress> progress = Sweep(op);
    if (!progress.ok()) return progress.status();
    op.after = progress->next;
  } while (op.after.has_value());
  return absl::OkStatus();
}

std::shared_ptr<MemoryStore> WorldStore::Memory() const {
  MutexLock lock(mutex_);
  return memory_;
}

absl::Status WorldStore::Count(std::size_t bytes) {
  if (bytes > limits_.bytes - bytes_) {
    return MakeError(Reason::kQuotaExceeded,
                     "the test world has reached its limit of bytes; call "
                     "idempotency.testing.v1.TestingService.Reset, or use another world");
  }
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status WorldStore::Admit(const ReserveOp& op) {
  MutexLock lock(mutex_);
  if (known_.count(op.id) > 0) return absl::OkStatus();
  if (known_.size() >= limits_.records) {
    return MakeError(Reason::kQuotaExceeded,
                     "the test world has reached its limit of records; call "
                     "idempotency.testing.v1.TestingService.Reset, or use another world");
  }
  if (absl::Status counted = Count(Batcher::BytesOf(op)); !counted.ok()) return counted;
  known_.insert(op.id);
  return absl::OkStatus();
}

absl::Status WorldStore::Admit(const CompleteOp& op) {
  MutexLock lock(mutex_);
  return Count(op.reply.bytes.size());
}

absl::Status WorldStore::Admit(const ExtendOp& op) {
  if (!op.checkpoint.has_value()) return absl::OkStatus();
  MutexLock lock(mutex_);
  return Count(op.checkpoint->size());
}

template <typename Answer, typename Op, typename Call>
std::vector<Answer> WorldStore::Admitted(absl::Span<const Op> ops, Call call) {
  std::vector<absl::Status> admissions;
  std::vector<Op> admitted;
  for (const Op& op : ops) {
    admissions.push_back(Admit(op));
    if (admissions.back().ok()) admitted.push_back(op);
  }
  std::vector<Answer> answered = call(*Memory(), admitted);
  std::vector<Answer> answers;
  auto next = answered.begin();
  for (absl::Status& admission : admissions) {
    if (admission.ok()) {
      answers.push_back(std::move(*next++));
    } else {
      answers.emplace_back(std::move(admission));
    }
  }
  return answers;
}

std::vector<absl::StatusOr<Verdict>> WorldStore::Reserve(absl::Span<const ReserveOp> ops) {
  return Admitted<absl::StatusOr<Verdict>>(
      ops, [](MemoryStore& memory, auto& admitted) { return memory.Reserve(admitted); });
}

std::vector<absl::StatusOr<Completion>> WorldStore::Complete(absl::Span<const CompleteOp> ops) {
  return Admitted<absl::StatusOr<Completion>>(
      ops, [](MemoryStore& memory, auto& admitted) { return memory.Complete(admitted); });
}

std::vector<absl::Status> WorldStore::Release(absl::Span<const ReleaseOp> ops) {
  return Memory()->Release(ops);
}

std::vector<absl::StatusOr<Extension>> WorldStore::Extend(absl::Span<const ExtendOp> ops) {
  return Admitted<absl::StatusOr<Extension>>(
      ops, [](MemoryStore& memory, auto& admitted) { return memory.Extend(admitted); });
}

std::vector<absl::StatusOr<Record>> WorldStore::Get(absl::Span<const GetOp> ops) {
  return Memory()->Get(ops);
}

}  // namespace idempotency::internal

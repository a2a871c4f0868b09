#include "interceptors/server/reservation/checkpoint_queue.h"

#include <algorithm>
#include <utility>

#include "core/answer_kind.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/reservation/store_context.h"

namespace idempotency::internal {
namespace {

absl::Status NotAcknowledged() {
  return MakeError(Reason::kStoreUnavailable,
                   "the idempotency store did not acknowledge the checkpoint in time");
}

}  // namespace

std::shared_ptr<CheckpointQueue> CheckpointQueue::Make(Scheduler& scheduler, absl::Duration timeout,
                                                       Send send) {
  return std::make_shared<CheckpointQueue>(PassKey<CheckpointQueue>(), scheduler, timeout,
                                           std::move(send));
}

CheckpointQueue::CheckpointQueue(PassKey<CheckpointQueue> /*key*/, Scheduler& scheduler,
                                 absl::Duration timeout, Send send)
    : scheduler_(scheduler),
      timeout_(timeout),
      send_(std::move(send)),
      backoff_(kFirstRepeat, kLongestRepeat) {}

void CheckpointQueue::Push(std::string progress, Stored done) {
  {
    MutexLock lock(mutex_);
    if (waiting_.size() < kMaxWaiting) {
      const std::uint64_t id = ++last_id_;
      const Scheduler::TaskId timer = scheduler_.RunAtOrWhenStopped(
          After(scheduler_.Now(), timeout_),
          [self = shared_from_this(), id] { self->Finish(id, NotAcknowledged()); });
      waiting_.push_back({id, std::move(progress), std::exchange(done, nullptr), timer});
      if (std::exchange(sending_, true)) return;
    }
  }
  if (done != nullptr) {
    done(MakeError(Reason::kOverloaded, "too many checkpoints are waiting to be stored"));
  } else {
    SendFirst();
  }
}

void CheckpointQueue::SendFirst() {
  std::uint64_t id = 0;
  std::string progress;
  {
    MutexLock lock(mutex_);
    if (waiting_.empty()) {
      sending_ = false;
      return;
    }
    id = waiting_.front().id;
    progress = waiting_.front().progress;
  }
  send_(progress, [self = shared_from_this(), id](const absl::Status& answer) {
    self->OnAnswer(id, answer);
  });
}

void CheckpointQueue::OnAnswer(std::uint64_t id, const absl::Status& answer) {
  {
    MutexLock lock(mutex_);
    if (IsTemporary(answer) && Repeat(id)) return;
  }
  Finish(id, answer);
  SendFirst();
}

bool CheckpointQueue::Repeat(std::uint64_t id) {
  if (waiting_.empty() || waiting_.front().id != id) return false;
  const auto again = After(scheduler_.Now(), backoff_.Next());
  return scheduler_.RunAt(again, [self = shared_from_this()] { self->SendFirst(); }) != 0;
}

void CheckpointQueue::Finish(std::uint64_t id, const absl::Status& answer) {
  Stored done;
  {
    MutexLock lock(mutex_);
    const auto found = std::find_if(waiting_.begin(), waiting_.end(),
                                    [id](const Waiting& waiting) { return waiting.id == id; });
    // Already answered.
    if (found == waiting_.end()) return;
    scheduler_.Cancel(found->timer);
    done = std::move(found->done);
    waiting_.erase(found);
  }
  done(answer);
}

}  // namespace idempotency::internal

#include "interceptors/server/reservation/store_probe.h"

#include <algorithm>
#include <utility>

#include "core/answer_kind.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// Names no record of a guarded method: their operations contain a '/'.
constexpr char kProbe[] = "guard.readiness";

bool MayPass(const absl::Status& status) {
  // Refused credentials are reported at once, although they may be renewed: to start with them is
  // a fault of the configuration. A connection turns a code without a reason into
  // STORE_UNAVAILABLE: that may be the answer of a proxy which has no way to the service yet.
  return ReasonOf(status) == Reason::kStoreUnavailable ||
         (IsTemporary(status) && !RefusesCaller(status));
}

}  // namespace

void StoreProbe::Run(SharedStoreContext context, const std::string& name_space, Time deadline,
                     Done done) {
  std::make_shared<StoreProbe>(PassKey<StoreProbe>(), std::move(context), name_space, deadline,
                               std::move(done))
      ->Start();
}

StoreProbe::StoreProbe(PassKey<StoreProbe> /*key*/, SharedStoreContext context,
                       const std::string& name_space, Time deadline, Done done)
    : context_(std::move(context)),
      deadline_(deadline),
      backoff_(kFirstRepeat, kLongestRepeat),
      last_(MakeError(Reason::kStoreUnavailable, "idempotencyd has not answered in time")),
      done_(std::move(done)) {
  v1::RecordKey& key = *request_.mutable_record_key();
  key.set_namespace_(name_space);
  key.set_scope(kProbe);
  key.set_operation(kProbe);
  key.set_key(kProbe);
}

void StoreProbe::Start() {
  {
    MutexLock lock(mutex_);
    timer_ = context_->scheduler.RunAtOrWhenStopped(deadline_, [self = shared_from_this()] {
      absl::Status last;
      {
        MutexLock relock(self->mutex_);
        last = self->last_;
      }
      self->Finish(last);
    });
  }
  Try();
}

void StoreProbe::Try() {
  const Time now = context_->scheduler.Now();
  context_->connection.Get(
      request_, std::min(deadline_, After(now, kTryTimeout)),
      [self = shared_from_this()](const auto& answer) { self->OnAnswer(answer.status()); });
}

void StoreProbe::OnAnswer(const absl::Status& answer) {
  if (answer.ok() || ReasonOf(answer) == Reason::kRecordNotFound) {
    Finish(absl::OkStatus());
    return;
  }
  {
    MutexLock lock(mutex_);
    last_ = answer;
    const Time again = After(context_->scheduler.Now(), backoff_.Next());
    if (done_ == nullptr) return;
    if (MayPass(answer) && again < deadline_ &&
        context_->scheduler.RunAt(again, [self = shared_from_this()] { self->Try(); }) != 0) {
      return;
    }
  }
  Finish(answer);
}

void StoreProbe::Finish(const absl::Status& status) {
  Done done;
  {
    MutexLock lock(mutex_);
    done.swap(done_);
    context_->scheduler.Cancel(timer_);
  }
  if (done) done(status);
}

}  // namespace idempotency::internal

#include "interceptors/server/reservation/reservations.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "core/deadline.h"
#include "core/errors.h"

namespace idempotency {
namespace {

absl::Status Closed() {
  ErrorDetails details;
  details.retry_delay = absl::Seconds(1);
  return MakeError(Reason::kStoreUnavailable, "the server is shutting down; nothing was run",
                   std::move(details));
}

}  // namespace

Reservations::Reservations(std::unique_ptr<Connection> connection, absl::Duration recording_timeout,
                           absl::Duration closing_timeout, std::shared_ptr<ReplayCache> cache,
                           std::unique_ptr<Scheduler> scheduler)
    : recording_timeout_(recording_timeout),
      closing_timeout_(closing_timeout),
      cache_(std::move(cache)),
      scheduler_(std::move(scheduler)),
      connection_(std::move(connection)),
      link_{connection_, *scheduler_, std::make_shared<OutstandingWork>(),
            std::make_shared<OutstandingWork>()} {}

Reservations::~Reservations() {
  Close();
  const Scheduler::Time now = Now();
  // A question whose answer never came can hold a key for a lease, no more.
  link_.requests->WaitUntilIdle(After(now, std::min(kTryTimeout, closing_timeout_)));
  if (!link_.recordings->WaitUntilIdle(After(now, closing_timeout_))) {
    spdlog::error("the guard goes away with operations that the store was not told of");
  }
  // First nothing is begun any more, then what is outstanding is answered.
  scheduler_->Stop();
  connection_.Close();
}

void Reservations::Request(v1::ReserveRequest request, absl::Duration max_wait,
                           Scheduler::Time deadline, ReservationRequest::Done done) {
  if (cache_ != nullptr && !closed()) {
    const auto known = cache_->FindReplay(request.record_key(), request.fingerprints());
    if (known != nullptr) return done(ReservationAnswer{known->response, Now()});
  }
  std::shared_ptr<ReservationRequest> asked;
  {
    MutexLock lock(mutex_);
    if (!closed_) {
      const RequestId id = ++last_id_;
      asked = ReservationRequest::Make(
          link_, std::move(request), max_wait, deadline,
          [this, id, done = std::move(done)](absl::StatusOr<ReservationAnswer> answer) {
            Forget(id);
            done(std::move(answer));
          });
      waiting_.emplace(id, asked);
    }
  }
  if (asked == nullptr) {
    // Nobody was made to move it into. NOLINTNEXTLINE(bugprone-use-after-move)
    done(Closed());
    return;
  }
  asked->Start();
}

void Reservations::Forget(RequestId id) {
  std::shared_ptr<ReservationRequest> dropped;
  MutexLock lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  dropped = std::move(found->second);
  waiting_.erase(found);
}

std::shared_ptr<Recording> Reservations::Hold(Recording::Grant grant) {
  auto recording = Recording::Make(link_, std::move(grant), recording_timeout_);
  recording->Start();
  return recording;
}

void Reservations::Probe(const std::string& name_space, Scheduler::Time deadline,
                         StoreProbe::Done done) {
  StoreProbe::Run(link_, name_space, deadline, std::move(done));
}

bool Reservations::closed() {
  MutexLock lock(mutex_);
  return closed_;
}

void Reservations::Close() {
  absl::flat_hash_map<RequestId, std::shared_ptr<ReservationRequest>> waiting;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    waiting.swap(waiting_);
  }
  for (const auto& [id, request] : waiting) request->GiveUp(Closed());
}

}  // namespace idempotency

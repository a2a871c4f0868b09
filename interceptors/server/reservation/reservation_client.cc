#include "interceptors/server/reservation/reservation_client.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/retry_delays.h"
#include "core/wire_time.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "interceptors/server/connection/reserved_request.h"

namespace idempotency::internal {

absl::Status Closed() {
  return MakeError(Reason::kStoreUnavailable, "the server is shutting down; nothing was run",
                   RetryAfter(retry_delays::kUnavailable));
}

namespace {

std::shared_ptr<const v1::ReserveResponse> InFlightHere() {
  auto response = std::make_shared<v1::ReserveResponse>();
  ToWire(retry_delays::kRecordBusy, *response->mutable_in_flight()->mutable_retry_after());
  return response;
}

}  // namespace

ReservationClient::ReservationClient(std::unique_ptr<Connection> connection,
                                     absl::Duration recording_timeout,
                                     absl::Duration closing_timeout,
                                     std::shared_ptr<ReplayCache> replays,
                                     std::unique_ptr<Scheduler> scheduler,
                                     const ReserveLimits& limits, std::shared_ptr<GuardLog> log)
    : limits_(limits),
      recording_timeout_(recording_timeout),
      closing_timeout_(closing_timeout),
      scheduler_(std::move(scheduler)),
      connection_(std::move(connection)),
      context_(std::make_shared<const StoreContext>(
          StoreContext{connection_, *scheduler_, std::make_shared<OutstandingWork>(),
                       std::make_shared<OutstandingWork>(), Places(limits.pursued), std::move(log),
                       std::move(replays)})),
      replies_ahead_(limits.replies_ahead) {}

ReservationClient::~ReservationClient() {
  Close();
  // Not the scheduler's time: the waits are by the system's clock.
  const auto now = std::chrono::steady_clock::now();
  // A request without an answer can hold a key for a lease at most.
  context_->requests->WaitUntilIdle(After(now, std::min(kTryTimeout, closing_timeout_)));
  if (!context_->recordings->WaitUntilIdle(After(now, closing_timeout_))) {
    context_->log->Once(LogSeverity::kError, "guard destroyed with unrecorded operations");
  }
  // First stop starting tasks, then answer the outstanding calls.
  scheduler_->Stop();
  connection_.Close();
}

ReplayCache::Answer ReservationClient::FindReplay(const v1::ReserveRequest& request) {
  if (context_->replays == nullptr || closed()) return nullptr;
  return context_->replays->FindReplay(request.record_key(), request.fingerprints());
}

void ReservationClient::Request(std::shared_ptr<const v1::ReserveRequest> request,
                                absl::Duration max_wait, Scheduler::Time deadline,
                                ReserveCall::Done done, AbandonedGrant abandoned) {
  std::shared_ptr<ReserveCall> call;
  bool closed = false;
  {
    MutexLock lock(mutex_);
    closed = closed_;
    if (!closed) call = Admit(request, max_wait, deadline, done, std::move(abandoned));
  }
  if (call != nullptr) return call->Start();
  if (closed) return done(Closed());
  done(ReserveAnswer{InFlightHere(), Now()});
}

std::shared_ptr<ReserveCall> ReservationClient::Admit(
    const std::shared_ptr<const v1::ReserveRequest>& request, absl::Duration max_wait,
    Scheduler::Time deadline, ReserveCall::Done& done, AbandonedGrant abandoned) {
  const std::size_t key = ReservedRequest::HashOf(request->record_key());
  std::size_t& of_key = of_key_[key];
  if (of_key >= limits_.of_a_key) return nullptr;
  ++of_key;
  if (waits_ >= limits_.waiting) max_wait = absl::ZeroDuration();
  const bool waits = max_wait > absl::ZeroDuration();
  if (waits) ++waits_;
  const RequestId id = ++last_id_;
  auto call = ReserveCall::Make(
      context_, request, max_wait, deadline,
      [this, id, done = std::move(done)](absl::StatusOr<ReserveAnswer> answer) mutable {
        Forget(id);
        done(std::move(answer));
      },
      std::move(abandoned));
  waiting_.emplace(id, SentReserve{call, key, waits});
  return call;
}

void ReservationClient::Forget(RequestId id) {
  std::shared_ptr<ReserveCall> dropped;
  MutexLock lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) return;
  const auto of_key = of_key_.find(found->second.key);
  if (--of_key->second == 0) of_key_.erase(of_key);
  if (found->second.waits) --waits_;
  dropped = std::move(found->second.request);
  waiting_.erase(found);
}

std::shared_ptr<Reservation> ReservationClient::Hold(Reservation::Grant grant) {
  auto reservation = Reservation::Make(context_, std::move(grant), recording_timeout_);
  reservation->Start();
  return reservation;
}

void ReservationClient::Probe(const std::string& name_space, Scheduler::Time deadline,
                              StoreProbe::Done done) {
  StoreProbe::Run(context_, name_space, deadline, std::move(done));
}

void ReservationClient::Find(const v1::RecordKey& key, Scheduler::Time deadline,
                             std::function<void(const absl::Status&)> done) {
  v1::GetRequest request;
  *request.mutable_record_key() = key;
  connection_.Get(request, deadline,
                  [hold = std::shared_ptr<OutstandingWork>(context_->requests->Begin()),
                   done = std::move(done)](const auto& answer) { done(answer.status()); });
}

bool ReservationClient::closed() {
  MutexLock lock(mutex_);
  return closed_;
}

void ReservationClient::Close() {
  absl::btree_map<RequestId, SentReserve> waiting;
  {
    MutexLock lock(mutex_);
    closed_ = true;
    waiting.swap(waiting_);
  }
  for (const auto& [id, reserve_request] : waiting) reserve_request.request->Abandon(Closed());
}

}  // namespace idempotency::internal

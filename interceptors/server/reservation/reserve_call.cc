#include "interceptors/server/reservation/reserve_call.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "client/connection/not_connected.h"
#include "core/answer_kind.h"
#include "core/retry_delays.h"
#include "core/wire_time.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal {
namespace {

using Time = Scheduler::Time;

constexpr absl::Duration kMinPursuit = absl::Seconds(30);

// True if the request may have been granted although no answer arrived.
bool IsOpen(const absl::Status& status) { return KindOfAnswer(status) == AnswerKind::kNone; }

// True for a grant whose lease had expired before its answer arrived.
bool CameTooLate(const absl::StatusOr<ReserveAnswer>& answer, Time now) {
  return answer.ok() && answer->response->has_reserved() &&
         now >= After(answer->sent, FromWire(answer->response->reserved().lease_remaining()));
}

absl::Status Unavailable(std::string_view message, const absl::Status& cause) {
  ErrorDetails details = DetailsOf(cause);
  if (!details.retry_delay.has_value()) details.retry_delay = retry_delays::kUnavailable;
  if (const auto reason = ReasonOf(cause); !cause.ok() && reason != Reason::kStoreUnavailable) {
    // A reason decides, not the code that came with it.
    const absl::StatusCode code = reason.has_value() ? CodeOf(*reason) : cause.code();
    details.metadata[std::string(kStatusCodeDetail)] = absl::StrCat(static_cast<int>(code));
  }
  details.violations.clear();
  return MakeError(Reason::kStoreUnavailable, message, std::move(details));
}

using SharedRequest = std::shared_ptr<const v1::ReserveRequest>;

// The request that every try sends: nearly always the given one.
SharedRequest RequestToSend(SharedRequest request, absl::Duration max_wait) {
  if (!request->request_token().empty() && FromWire(request->max_wait()) == max_wait) {
    return request;
  }
  const auto sent_request = std::make_shared<v1::ReserveRequest>(*request);
  if (sent_request->request_token().empty()) {
    sent_request->set_request_token(Uuid::Random().ToString());
  }
  sent_request->clear_max_wait();
  if (max_wait > absl::ZeroDuration()) *sent_request->mutable_max_wait() = ToWire(max_wait);
  return sent_request;
}

// True if every field that the service refuses is a term of the method's policy: the namespace's
// bounds may have been tightened while the guard runs, and can be widened again.
bool RefusesTerms(const absl::Status& failure) {
  static constexpr std::string_view kTerms[] = {"lease",     "retention", "reply_retention",
                                                "tombstone", "max_wait",  "on_lease_expiry"};
  if (ReasonOf(failure) != Reason::kRequestInvalid) return false;
  const std::vector<FieldViolation> violations = DetailsOf(failure).violations;
  return !violations.empty() &&
         std::all_of(violations.begin(), violations.end(), [](const FieldViolation& violation) {
           return std::find(std::begin(kTerms), std::end(kTerms), violation.field) !=
                  std::end(kTerms);
         });
}

// The status for the guard's caller. The service's own refusals are passed on. A refusal of the
// guard itself (identity, permission, configuration, its policy's terms, a proxy in between) does
// not concern the caller: it becomes STORE_UNAVAILABLE, which never fails open either.
absl::Status ForCaller(const absl::Status& failure, GuardLog& log) {
  if (IsOpen(failure)) {
    return Unavailable("the idempotency store gave no verdict; nothing was run", failure);
  }
  const auto reason = ReasonOf(failure);
  const bool own = reason.has_value() && reason != Reason::kStoreUnavailable &&
                   !RefusesCaller(failure) && !RefusesTerms(failure);
  if (!own || reason == Reason::kRequestInvalid) {
    log.Error(LogEvent::kRequestRefused, "idempotencyd refuses the guard's Reserve: ",
              absl::StatusCodeToString(failure.code()), " ", failure.message());
  }
  if (own) return failure;
  return Unavailable("the idempotency store refuses this server's request; nothing was run",
                     failure);
}

}  // namespace

std::shared_ptr<ReserveCall> ReserveCall::Make(SharedStoreContext context, SharedRequest request,
                                               absl::Duration max_wait, Time deadline, Done done,
                                               AbandonedGrant abandoned) {
  return std::make_shared<ReserveCall>(PassKey<ReserveCall>(), std::move(context),
                                       std::move(request), max_wait, deadline, std::move(done),
                                       std::move(abandoned));
}

ReserveCall::ReserveCall(PassKey<ReserveCall> /*key*/, SharedStoreContext context,
                         SharedRequest request, absl::Duration max_wait, Time deadline, Done done,
                         AbandonedGrant abandoned)
    : context_(std::move(context)),
      wait_until_(After(context_->scheduler.Now(), max_wait)),
      deadline_(deadline),
      pursue_until_(After(deadline, std::max(FromWire(request->lease()), kMinPursuit))),
      request_(RequestToSend(std::move(request), max_wait)),
      abandoned_(std::move(abandoned)),
      hold_(context_->requests->Begin()),
      backoff_(kFirstRepeat, kLongestRepeat),
      done_(std::move(done)) {}

void ReserveCall::Start() {
  Send(*request_, deadline_);
  MutexLock lock(mutex_);
  // Answered at once, as by a closed connection: there is nothing to watch.
  if (done_ == nullptr) return;
  timer_ = context_->scheduler.RunAtOrWhenStopped(
      deadline_, [self = shared_from_this()] { self->Abandon(self->NoVerdictInTime()); });
}

void ReserveCall::Abandon(const absl::Status& status) { Finish(status); }

absl::Status ReserveCall::NoVerdictInTime() {
  MutexLock lock(mutex_);
  // A grant is a verdict, also a late one: its caller must not continue as if there were none.
  return late_grant_
             ? Unavailable("the idempotency store granted a reservation too late; nothing was run",
                           absl::AbortedError("a grant that came too late"))
             : Unavailable("the idempotency store gave no verdict in time; nothing was run",
                           absl::OkStatus());
}

void ReserveCall::SendAgain() {
  const Time sent = context_->scheduler.Now();
  v1::ReserveRequest request = *request_;
  Time deadline = deadline_;
  {
    MutexLock lock(mutex_);
    if (done_ == nullptr || sent >= wait_until_) {
      request.clear_max_wait();
    } else {
      *request.mutable_max_wait() = ToWire(absl::FromChrono(wait_until_ - sent));
    }
    if (done_ == nullptr) deadline = After(sent, kTryTimeout);
  }
  Send(request, deadline);
}

void ReserveCall::Send(const v1::ReserveRequest& request, Time deadline) {
  const Time sent = context_->scheduler.Now();
  const ReplayCache::Moment sent_moment = ReplayCache::NowOf(context_->replays.get());
  context_->connection.Reserve(request, deadline,
                               [self = shared_from_this(), sent, sent_moment](auto response) {
                                 self->OnResponse(std::move(response), sent, sent_moment);
                               });
}

void ReserveCall::OnResponse(absl::StatusOr<v1::ReserveResponse> response, Time sent,
                             ReplayCache::Moment sent_moment) {
  if (!response.ok()) return OnAnswer(response.status());
  ReserveAnswer answer{std::make_shared<const v1::ReserveResponse>(*std::move(response)), sent};
  if (context_->replays != nullptr) {
    context_->replays->KeepVerdict(*request_, answer.response, sent_moment);
  }
  OnAnswer(std::move(answer));
}

void ReserveCall::OnAnswer(absl::StatusOr<ReserveAnswer> answer) {
  // A temporary refusal answers this try alone: an earlier one may have been granted.
  const bool of_this_try = IsTemporary(answer.status());
  {
    MutexLock lock(mutex_);
    // Nothing was granted that a repeat would have to find, and a longer wait would not help
    // the caller.
    const bool never_sent = !maybe_sent_ && IsNotConnected(answer.status());
    maybe_sent_ = true;
    if (!never_sent && IsOpen(answer.status())) {
      maybe_granted_ = true;
      if (Repeat()) return;
    }
    // The same token renews the lease, if no other attempt has taken over.
    if (done_ != nullptr && CameTooLate(answer, context_->scheduler.Now()) && Repeat()) {
      maybe_granted_ = true;
      late_grant_ = true;
      context_->log->Warn(LogEvent::kLateGrant,
                          "a grant arrived after its lease had expired; reserving again (lease ",
                          absl::FormatDuration(FromWire(request_->lease())), ")");
      return;
    }
  }
  if (!answer.ok()) {
    Finish(ForCaller(answer.status(), *context_->log));
  } else {
    Finish(std::move(answer));
  }
  MutexLock lock(mutex_);
  if (maybe_granted_ && of_this_try && Repeat()) return;
  hold_.reset();
  pursuit_.reset();
}

bool ReserveCall::Repeat() {
  const Time again = After(context_->scheduler.Now(), backoff_.Next());
  if (again >= pursue_until_) return false;
  if (done_ == nullptr && pursuit_ == nullptr) pursuit_ = context_->pursuits.TryTake();
  if (done_ == nullptr && pursuit_ == nullptr) return false;
  context_->scheduler.RunAt(again, [self = shared_from_this()] { self->SendAgain(); });
  return true;
}

void ReserveCall::Finish(absl::StatusOr<ReserveAnswer> answer) {
  Done done;
  {
    MutexLock lock(mutex_);
    done = std::exchange(done_, nullptr);
    context_->scheduler.Cancel(timer_);
  }
  if (done != nullptr) {
    done(std::move(answer));
  } else if (answer.ok() && answer->response->has_reserved()) {
    ReleaseGrant(*std::move(answer));
  }
}

bool ReserveCall::MayRunUnguarded() const {
  return abandoned_.unguarded != nullptr && abandoned_.unguarded->possible();
}

void ReserveCall::ReleaseGrant(ReserveAnswer answer) {
  Reservation::Grant held;
  held.request = request_;
  held.lease_deadline = After(answer.sent, FromWire(answer.response->reserved().lease_remaining()));
  held.answer = std::move(answer.response);
  const auto reservation = Reservation::Make(context_, std::move(held), kTryTimeout);
  reservation->OnLeftOpen(std::move(abandoned_.on_left_open));
  if (MayRunUnguarded()) {
    reservation->LetLapse();
  } else {
    reservation->GiveBack("the caller had stopped waiting", [] {});
  }
}

}  // namespace idempotency::internal

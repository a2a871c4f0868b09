#include "interceptors/server/execution/ledger_lookup.h"

#include <utility>
#include <vector>

#include "absl/time/time.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/deadline.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/ledger/completion_ledger.h"
#include "grpc_idempotency/record_key.h"
#include "interceptors/server/request/application_call.h"
#include "interceptors/server/wire/guard_errors.h"

namespace idempotency::internal {
namespace {

absl::Status Unreachable() {
  return MakeError(Reason::kStoreUnavailable,
                   "the completion ledger cannot be queried; nothing was run",
                   RetryAfter(retry_delays::kUnavailable));
}

absl::Status TooManyLookups() {
  return MakeError(Reason::kStoreUnavailable,
                   "too many queries of the completion ledger are waiting; nothing was run",
                   RetryAfter(retry_delays::kUnavailable));
}

// Compares the ledger's row for the record's id with the record itself.
LedgerLookup::Answer Judge(const LedgerEntry& entry, const RecordKey& record_key,
                           const v1::ReserveRequest& reserve_request) {
  if (entry.record_key != record_key) {
    return MakeError(Reason::kRecordIdCollision,
                     "the completion ledger holds another operation under this record's id");
  }
  std::vector<Fingerprint> sent;
  for (const v1::Fingerprint& fingerprint : reserve_request.fingerprints()) {
    sent.push_back(FromProto(fingerprint));
  }
  switch (CompareFingerprints(entry.fingerprints, sent)) {
    case FingerprintMatch::kSame:
      return entry.reply;
    case FingerprintMatch::kDifferent:
      return KeyReused();
    case FingerprintMatch::kNothingInCommon:
      break;
  }
  return MakeError(Reason::kFingerprintUnknown,
                   "the completion ledger's row and the request have no fingerprint in common");
}

// Blocks. A failed query is STORE_UNAVAILABLE, with any status of the ledger.
LedgerLookup::Answer Find(const GuardedOperation& operation,
                          const v1::ReserveRequest& reserve_request) {
  const RecordKey record_key = FromProto(reserve_request.record_key());
  GuardLog& log = *operation.log;
  absl::StatusOr<std::optional<LedgerEntry>> found;
  // A ledger may be the application's own.
  const bool answered = RunApplication(log, operation.name, "the completion ledger", [&] {
    found = operation.options.ledger->Find(RecordIdFor(record_key));
  });
  if (!answered) return Unreachable();
  if (found.ok()) {
    if (!found->has_value()) return std::nullopt;
    return Judge(**found, record_key, reserve_request);
  }
  if (ReasonOf(found.status()) == Reason::kRecordDamaged) return found.status();
  log.Warn(LogEvent::kLedgerUnavailable, operation.name,
           ": the completion ledger cannot be queried: ",
           absl::StatusCodeToString(found.status().code()));
  return Unreachable();
}

}  // namespace

void LedgerLookup::Run(const std::shared_ptr<LiveExecution>& execution, Time deadline, Done done) {
  std::make_shared<LedgerLookup>(PassKey<LedgerLookup>(), execution->shared_operation(),
                                 execution->reservation()->shared_request(), execution, deadline,
                                 std::move(done))
      ->Start();
}

void LedgerLookup::Run(std::shared_ptr<const GuardedOperation> operation,
                       std::shared_ptr<const v1::ReserveRequest> reserve_request, Time deadline,
                       Done done) {
  std::make_shared<LedgerLookup>(PassKey<LedgerLookup>(), std::move(operation),
                                 std::move(reserve_request), /*execution=*/nullptr, deadline,
                                 std::move(done))
      ->Start();
}

LedgerLookup::LedgerLookup(PassKey<LedgerLookup> /*key*/,
                           std::shared_ptr<const GuardedOperation> operation,
                           std::shared_ptr<const v1::ReserveRequest> reserve_request,
                           std::shared_ptr<LiveExecution> execution, Time deadline, Done done)
    : operation_(std::move(operation)),
      reserve_request_(std::move(reserve_request)),
      execution_(std::move(execution)),
      deadline_(deadline),
      backoff_(kFirstRepeat, kLongestRepeat),
      done_(std::move(done)) {}

void LedgerLookup::Start() {
  if (deadline_ != Time::max()) {
    // Also while a lookup hangs in the ledger: its caller no longer waits.
    MutexLock lock(mutex_);
    timer_ = operation_->reservations.scheduler().RunAtOrWhenStopped(
        deadline_, [self = shared_from_this()] { self->Finish(Unreachable()); });
  }
  Try();
}

void LedgerLookup::Try() {
  switch (operation_->pools.ledger.Run(
      [self = shared_from_this()] {
        // Its caller has left: a slow ledger's time is for the others.
        if (self->Answered()) return;
        self->OnAnswer(Find(*self->operation_, *self->reserve_request_));
      },
      [self = shared_from_this()] { self->Finish(Unreachable()); })) {
    case WorkerPool::Outcome::kTaken:
      return;
    case WorkerPool::Outcome::kFull:
      // A lookup with a deadline belongs to a call that has not started, and can be repeated.
      if (deadline_ == Time::max()) {
        OnAnswer(TooManyLookups());
      } else {
        Finish(TooManyLookups());
      }
      return;
    case WorkerPool::Outcome::kStopped:
      Finish(Unreachable());
      return;
  }
}

bool LedgerLookup::Answered() {
  MutexLock lock(mutex_);
  return done_ == nullptr;
}

void LedgerLookup::OnAnswer(Answer answer) {
  if (execution_ != nullptr && answer.ok() && answer->has_value()) {
    execution_->AdoptRowReference(**answer);
  }
  const bool open = ReasonOf(answer.status()) == Reason::kStoreUnavailable;
  if (open && TryAgain()) return;
  Finish(std::move(answer));
}

bool LedgerLookup::TryAgain() {
  // The present holder of the reservation does its own lookup.
  if (execution_ != nullptr && execution_->lost()) return false;
  Scheduler& scheduler = operation_->reservations.scheduler();
  MutexLock lock(mutex_);
  if (done_ == nullptr) return true;
  const Time again = After(scheduler.Now(), backoff_.Next());
  if (again >= deadline_) return false;
  return scheduler.RunAt(again, [self = shared_from_this()] { self->Try(); }) != 0;
}

void LedgerLookup::Finish(Answer answer) {
  Done done;
  {
    MutexLock lock(mutex_);
    done.swap(done_);
    operation_->reservations.scheduler().Cancel(timer_);
  }
  if (done != nullptr) done(std::move(answer));
}

}  // namespace idempotency::internal

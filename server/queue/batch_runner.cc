#include "server/queue/batch_runner.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <variant>

#include "grpc_idempotency/errors.h"
#include "server/queue/answer_batch_scope.h"
#include "server/queue/answer_report.h"
#include "server/queue/operation_weight.h"
#include "server/queue/queue_errors.h"
#include "server/queue/store_span.h"

namespace idempotency::internal {
namespace {

// A replay that followers share is copied for each: of larger ones, which the budget counts, each
// caller gets its own.
constexpr std::size_t kMaxSharedReplyBytes = 64 * 1024;

// Whether followers of a reservation may have its answer, which was read after they arrived. An
// error may concern the first one alone; of an `in_flight`, a follower may be the repeat of the
// holder's own request, which gets the grant.
bool IsShared(const absl::StatusOr<Verdict>& answer) {
  return answer.ok() && std::holds_alternative<Replay>(*answer) &&
         ReplyBytesIn(answer) <= kMaxSharedReplyBytes;
}
// Operations of other kinds have no followers.
template <typename Answer>
bool IsShared(const Answer&) {
  return false;
}

// See RecordStore.
bool IsLeftForNextCall(const absl::Status& answer) {
  return ReasonOf(answer) == Reason::kOverloaded;
}

void AddToSpan(const std::vector<QueuedPtr>& operations, StoreSpan& span) {
  for (const QueuedPtr& queued : operations) {
    span.AddOperation(queued->trace.has_value() ? &*queued->trace : nullptr);
  }
}

// The name of the call in its span; empty if it is of several methods.
template <typename Op>
std::string_view MethodOf(const StoreCall<Op>&) {
  return OperationName(StoreMethod<Op>::kKind);
}
std::string_view MethodOf(const StoreCall<CompleteOp>&, const StoreCall<ReserveOp>&) { return {}; }

void MoveInto(std::vector<QueuedPtr>& all, std::vector<QueuedPtr> some) {
  std::move(some.begin(), some.end(), std::back_inserter(all));
}

}  // namespace

// Calls of the store.

void BatchRunner::Run(OperationBatch batch) {
  Run(CallFor<ReserveOp>(batch, QueueKind::kReserveRelaxed));
  // Both are taken before the call.
  StoreCall<CompleteOp> completions = CallFor<CompleteOp>(batch, QueueKind::kComplete);
  RunTogether(std::move(completions), CallFor<ReserveOp>(batch, QueueKind::kReserve));
  Run(CallFor<ReleaseOp>(batch, QueueKind::kRelease));
  Run(CallFor<ExtendOp>(batch, QueueKind::kExtend));
  // Get waits for nothing, so it does not share a call with reads that wait for a standby.
  Run(CallFor<GetOp>(batch, QueueKind::kGet));
  Run(CallFor<ReserveOp>(batch, QueueKind::kReserveForWaiter));
  Run(CallFor<GetOp>(batch, QueueKind::kGetForWaiter));
}

void BatchRunner::Run(HeldCall call) {
  std::visit([this](auto typed) { Run(std::move(typed)); }, std::move(call).Take());
}

void BatchRunner::Deliver(HeldCall call) {
  const SteadyTime start = call.started_at();
  std::visit([this, start](auto typed) { End(start, std::move(typed)); }, std::move(call).Take());
}

template <typename Op>
StoreCall<Op> BatchRunner::CallFor(OperationBatch& batch, QueueKind queue) {
  return StoreCall<Op>(StillWanted(std::move(batch.of(queue))));
}

std::vector<QueuedPtr> BatchRunner::StillWanted(std::vector<QueuedPtr> taken) {
  if (taken.empty()) return taken;
  const SteadyTime now = options_.clock->Monotonic();
  const auto kept =
      std::stable_partition(taken.begin(), taken.end(),
                            [now](const QueuedPtr& queued) { return !queued->IsUnwanted(now); });
  if (kept == taken.end()) return taken;
  std::vector<QueuedPtr> unwanted(std::make_move_iterator(kept),
                                  std::make_move_iterator(taken.end()));
  taken.erase(kept, taken.end());
  std::vector<QueuedPtr> followers;
  for (const QueuedPtr& queued : unwanted) {
    MoveInto(followers, std::exchange(queued->followers, {}));
  }
  if (!followers.empty()) put_back_(std::move(followers));
  AnswerUnwanted(std::move(unwanted));
  return taken;
}

template <typename Op>
void BatchRunner::Run(StoreCall<Op> call) {
  if (call.empty()) return;
  const SteadyTime start = options_.clock->Monotonic();
  call.Run(store_);
  End(start, std::move(call));
}

void BatchRunner::RunTogether(StoreCall<CompleteOp> completions,
                              StoreCall<ReserveOp> reservations) {
  if (reservations.empty()) return Run(std::move(completions));
  if (completions.empty()) return Run(std::move(reservations));
  const SteadyTime start = options_.clock->Monotonic();
  SharedAnswers answers = store_.CompleteAndReserve(completions.ops, reservations.ops);
  completions.answers = std::move(answers.completions);
  reservations.answers = std::move(answers.verdicts);
  End(start, std::move(completions), std::move(reservations));
}

// Their answers.

template <typename... Op>
void BatchRunner::End(SteadyTime start, StoreCall<Op>... calls) {
  const absl::Duration took = absl::FromChrono(options_.clock->Monotonic() - start);
  if (options_.tracer != nullptr) RecordSpan(took, calls...);
  const AnswerBatchScope scope;
  (AnswerAll(std::move(calls), took), ...);
}

template <typename... Op>
void BatchRunner::RecordSpan(absl::Duration took, const StoreCall<Op>&... calls) {
  StoreSpan span;
  (AddToSpan(calls.queued, span), ...);
  if (span.empty()) return;
  absl::Status failure;
  (failure.Update(FirstFailureIn(calls.answers)), ...);
  std::move(span).Record(options_.store_system, MethodOf(calls...), (calls.queued.size() + ...),
                         took, failure, *options_.tracer);
}

template <typename Op>
void BatchRunner::AnswerAll(StoreCall<Op> call, absl::Duration took) {
  std::vector<QueuedPtr>& taken = call.queued;
  auto& answers = call.answers;
  // A store that does not answer every operation is broken, and guessing the
  // receivers of its answers could grant twice.
  if (answers.size() != taken.size()) std::abort();
  observer_.BatchDone(StoreMethod<Op>::kKind, taken.size(), took);

  // All replies count before the first is delivered, since all of them are here.
  for (const auto& answer : answers) budget_.Add(ReplyBytesIn(answer));
  std::vector<QueuedPtr> left;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    Op& op = QueuedFor<Op>::Of(*taken[i]).op;
    op = std::move(call.ops[i]);
    std::vector<QueuedPtr> followers = std::exchange(taken[i]->followers, {});
    if (IsLeftForNextCall(StatusOf(answers[i]))) {
      left.push_back(std::move(taken[i]));
      MoveInto(left, std::move(followers));
      continue;
    }
    const std::size_t reply_bytes = ReplyBytesIn(answers[i]);
    ReportAnswer(observer_, op, answers[i]);
    if (!followers.empty()) AnswerFollowers<Op>(std::move(followers), answers[i]);
    AnswerOne<Op>(std::move(taken[i]), std::move(answers[i]), reply_bytes);
  }
  if (!left.empty()) put_back_(std::move(left));
}

template <typename Op>
void BatchRunner::AnswerFollowers(std::vector<QueuedPtr> followers,
                                  const typename StoreMethod<Op>::Answer& answer) {
  if (!IsShared(answer)) return put_back_(std::move(followers));
  const std::size_t reply_bytes = ReplyBytesIn(answer);
  for (QueuedPtr& follower : followers) {
    budget_.Add(reply_bytes);
    ReportAnswer(observer_, StoreMethod<Op>::kKind, follower->id, answer);
    AnswerOne<Op>(std::move(follower), answer, reply_bytes);
  }
}

template <typename Op>
void BatchRunner::AnswerOne(QueuedPtr queued, typename StoreMethod<Op>::Answer answer,
                            std::size_t reply_bytes) {
  QueuedFor<Op>::Of(*queued).Answer(std::move(answer));
  queued.reset();
  budget_.Remove(reply_bytes);
}

void BatchRunner::AnswerUnwanted(std::vector<QueuedPtr> unwanted) {
  if (unwanted.empty()) return;
  const AnswerBatchScope scope;
  for (QueuedPtr& queued : unwanted) {
    if (queued->CallerHasLeft()) {
      queued->Refuse(CallerLeftQueue());
    } else {
      observer_.OperationOverdue(queued->kind());
      queued->Refuse(PassedInQueue());
    }
    queued.reset();
  }
}

}  // namespace idempotency::internal

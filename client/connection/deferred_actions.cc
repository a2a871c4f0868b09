#include "client/connection/deferred_actions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

// For a refusal that names none.
constexpr absl::Duration kRetryDelay = absl::Milliseconds(200);

grpc::Status StatusOf(const v1::SessionError& error) {
  return grpc::Status(StatusCodeFrom(error.code()), error.message(), error.details());
}

// The status for the caller of `operation`. A temporary refusal of a reservation that an earlier
// stream may have delivered is no answer to that delivery, which may have been granted.
absl::Status ForCaller(const OutstandingOperation& operation, absl::Status refusal) {
  if (!operation.is_reserve || !operation.maybe_sent || !IsTemporary(refusal)) return refusal;
  if (KindOfAnswer(refusal) == AnswerKind::kNone) return refusal;
  ErrorDetails details;
  details.retry_delay = DetailsOf(refusal).retry_delay.value_or(kRetryDelay);
  return MakeError(Reason::kStoreUnavailable,
                   absl::StrCat("the connection to idempotencyd broke before it answered, and it "
                                "refuses a repeat for now (",
                                refusal.message(), "): repeat the call with the same tokens"),
                   std::move(details));
}

}  // namespace

void DeferredActions::Run(TransportErrorReporter& transport_errors) {
  for (SessionStream* stream : starts_) stream->Start();
  for (auto& [stream, frame] : writes_) stream->Write(std::move(frame));
  for (SessionStream* stream : reads_) stream->Read();
  for (SessionStream* stream : half_closes_) stream->HalfClose();
  for (const auto& stream : cancels_) stream->Cancel();
  for (SessionStream* stream : releases_) stream->Release();
  for (auto& [operation, other] : detours_) operation->SendBy(*other);
  for (auto& [operation, answer] : answers_) {
    if (answer->has_error()) {
      operation->Fail(ForCaller(*operation, transport_errors.Failed(StatusOf(answer->error()))));
    } else {
      operation->Answer(*answer);
    }
  }
  // In the order of their requests, not in that of a hash table.
  std::sort(failures_.begin(), failures_.end(),
            [](const auto& a, const auto& b) { return a.first->id < b.first->id; });
  for (auto& [operation, status] : failures_) operation->Fail(status);
}

}  // namespace idempotency::internal

#include "core/answer_kind.h"

#include <optional>
#include <string>

#include "absl/strings/numbers.h"

#include "core/indefinite_code.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

AnswerKind KindOfCode(absl::StatusCode code) {
  if (IsIndefiniteCode(code)) return AnswerKind::kNone;
  switch (code) {
    case absl::StatusCode::kOk:
      return AnswerKind::kDone;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kAborted:
      return AnswerKind::kBusy;
    default:
      return AnswerKind::kRefused;
  }
}

}  // namespace

std::optional<absl::StatusCode> CodeWithoutReason(const absl::Status& status) {
  if (status.ok()) return std::nullopt;
  const std::optional<Reason> reason = ReasonOf(status);
  if (!reason.has_value()) return status.code();
  if (reason != Reason::kStoreUnavailable) return std::nullopt;
  const ErrorDetails details = DetailsOf(status);
  const auto found = details.metadata.find(std::string(kStatusCodeDetail));
  int number = 0;
  if (found == details.metadata.end() || !absl::SimpleAtoi(found->second, &number)) {
    return std::nullopt;
  }
  const auto code = static_cast<absl::StatusCode>(StatusCodeFrom(number));
  // An error never replaces a success.
  if (code == absl::StatusCode::kOk) return std::nullopt;
  return code;
}

AnswerKind KindOfAnswer(const absl::Status& status) {
  if (status.ok()) return AnswerKind::kDone;
  const std::optional<Reason> reason = ReasonOf(status);
  if (!reason.has_value()) return KindOfCode(status.code());
  switch (*reason) {
    case Reason::kStoreUnavailable:
      return KindOfCode(CodeWithoutReason(status).value_or(absl::StatusCode::kUnavailable));
    case Reason::kOutcomeNotRecorded:
      return AnswerKind::kNone;
    case Reason::kOverloaded:
    case Reason::kQuotaExceeded:
    case Reason::kInFlight:
    case Reason::kCredentialsInvalid:
      return AnswerKind::kBusy;
    default:
      return AnswerKind::kRefused;
  }
}

bool RefusesCaller(const absl::Status& status) {
  const std::optional<Reason> reason = ReasonOf(status);
  if (reason == Reason::kAccessDenied || reason == Reason::kCredentialsInvalid) return true;
  const bool of_the_service = reason.has_value() && reason != Reason::kStoreUnavailable;
  return !of_the_service && KindOfAnswer(status) == AnswerKind::kRefused;
}

bool IsTemporary(const absl::Status& status) {
  if (status.ok()) return false;
  const AnswerKind kind = KindOfAnswer(status);
  return kind == AnswerKind::kNone || kind == AnswerKind::kBusy || RefusesCaller(status);
}

}  // namespace idempotency::internal

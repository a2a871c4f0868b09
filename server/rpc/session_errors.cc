#include "server/rpc/session_errors.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/answer_kind.h"
#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::Status SessionOverloaded(std::string_view message) {
  return MakeError(Reason::kOverloaded, message, RetryAfter(retry_delays::kServiceOverloaded));
}

absl::Status OfFrame(std::uint64_t number, const absl::Status& error) {
  ErrorDetails details = DetailsOf(error);
  details.metadata[std::string(kFrameDetail)] = absl::StrCat(number);
  return MakeError(Reason::kRequestInvalid, std::string(error.message()), std::move(details));
}

}  // namespace idempotency::internal

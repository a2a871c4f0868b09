#include "server/rpc/session_errors.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"

namespace idempotency::internal {
namespace {

// As the batcher's: after this time the earlier answers have been sent.
constexpr absl::Duration kOverloadedRetryDelay = absl::Milliseconds(500);

}  // namespace

absl::Status SessionOverloaded(std::string_view message) {
  return MakeError(Reason::kOverloaded, message, {kOverloadedRetryDelay, {}, {}});
}

absl::Status OfFrame(std::uint64_t number, const absl::Status& error) {
  ErrorDetails details = DetailsOf(error);
  details.metadata[std::string(kFrameDetail)] = absl::StrCat(number);
  return MakeError(Reason::kRequestInvalid, std::string(error.message()), std::move(details));
}

}  // namespace idempotency::internal

#include "interceptors/server/admission/rejection.h"

#include <grpcpp/support/status.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/errors.h"
#include "core/grpc_status.h"
#include "core/idempotency_key.h"
#include "core/reply.h"
#include "interceptors/server/wire/record_metadata.h"
#include "interceptors/server/wire/wire_time.h"

namespace idempotency {
namespace {

absl::Status InFlightRejection(const v1::InFlight& in_flight) {
  ErrorDetails details;
  details.retry_delay = FromWire(in_flight.retry_after());
  return MakeError(Reason::kInFlight, "another attempt of this operation is running",
                   std::move(details));
}

}  // namespace

bool CanBeReplayed(const v1::Reply& reply) {
  if (IsComplete(reply)) return true;
  switch (reply.content()) {
    case v1::REPLY_CONTENT_REDACTED:
    case v1::REPLY_CONTENT_REFERENCE:
      return true;
    case v1::REPLY_CONTENT_STATUS_ONLY:
      // An error's code and message are what callers act on. An OK without its
      // message would pretend that there was none.
      return reply.code() != 0;
    default:
      // Of a newer service.
      return false;
  }
}

absl::Status ReplyNotKept(int original_code) {
  ErrorDetails details;
  details.metadata["original_code"] = absl::StrCat(original_code);
  return MakeError(Reason::kReplyNotKept,
                   "the operation completed, but its reply was not kept; nothing was run again",
                   std::move(details));
}

absl::Status OutcomeUnknownRejection() {
  return MakeError(Reason::kOutcomeUnknown,
                   "an earlier attempt ended without a trace and this operation must not run "
                   "again before its outcome is known");
}

absl::Status RejectionFor(const v1::ReserveResponse& verdict) {
  switch (verdict.verdict_case()) {
    case v1::ReserveResponse::kReserved:
      return absl::OkStatus();
    case v1::ReserveResponse::kReplay:
      if (CanBeReplayed(verdict.replay().reply())) return absl::OkStatus();
      return ReplyNotKept(verdict.replay().reply().code());
    case v1::ReserveResponse::kInFlight:
      return InFlightRejection(verdict.in_flight());
    case v1::ReserveResponse::kMismatch:
      return MakeError(Reason::kKeyReused,
                       "this idempotency key was used with a different request: use a new key for "
                       "a new operation, and the same request on every retry");
    case v1::ReserveResponse::kOutcomeUnknown:
      return OutcomeUnknownRejection();
    case v1::ReserveResponse::kExpired:
      return MakeError(Reason::kKeyExpired,
                       "this idempotency key is too old to tell whether its operation ran");
    case v1::ReserveResponse::VERDICT_NOT_SET:
      break;
  }
  // A verdict of a newer service: not understood, so nothing runs.
  ErrorDetails details;
  details.retry_delay = absl::Seconds(1);
  return MakeError(Reason::kStoreUnavailable,
                   "the idempotency store's verdict is not understood; nothing was run",
                   std::move(details));
}

v1::Reply RejectionReply(const absl::Status& rejection, std::string_view record_id) {
  const grpc::Status status = ToGrpcStatus(rejection);
  v1::Reply reply;
  reply.set_code(static_cast<int>(status.error_code()));
  reply.set_message(status.error_message());
  reply.set_details(status.error_details());
  MetadataEntries trailers = RecordMetadata(record_id, absl::InfinitePast(), false);
  if (std::optional<std::string> pushback = PushbackOf(rejection); pushback.has_value()) {
    trailers.emplace_back(kPushbackMetadata, *std::move(pushback));
  }
  for (auto& [key, value] : trailers) {
    v1::MetadataEntry& entry = *reply.add_trailing_metadata();
    entry.set_key(std::move(key));
    entry.set_value(std::move(value));
  }
  return reply;
}

}  // namespace idempotency

#include "interceptors/server/admission/rejection.h"

#include <grpcpp/support/status.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "core/retry_delays.h"
#include "core/wire_time.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/reply.h"
#include "interceptors/server/wire/guard_errors.h"
#include "interceptors/server/wire/record_metadata.h"

namespace idempotency::internal {
namespace {

// The pause of gRPC's own retries inside one call while an attempt runs or pauses: five tries
// then end within about 4 s. A pause of a minute is left to the application.
constexpr absl::Duration kLongestPushback = absl::Seconds(1);

absl::Status InFlightRejection(const v1::InFlight& in_flight) {
  return MakeError(Reason::kInFlight,
                   "another attempt of this operation is running, or has just failed and must "
                   "pause: retry with the same idempotency key",
                   RetryAfter(FromWire(in_flight.retry_after())));
}

std::string CauseName(v1::OutcomeUnknown::Cause cause) {
  switch (cause) {
    case v1::OutcomeUnknown::CAUSE_RELEASED:
      return "RELEASED";
    case v1::OutcomeUnknown::CAUSE_LEASE_EXPIRED:
      return "LEASE_EXPIRED";
    default:
      return "UNSPECIFIED";
  }
}

std::string WhatHappened(const v1::OutcomeUnknown& unknown) {
  if (!unknown.reason().empty()) return unknown.reason();
  if (unknown.cause() == v1::OutcomeUnknown::CAUSE_LEASE_EXPIRED) {
    return "its lease expired, because its process was lost or could not extend it";
  }
  return "no more is recorded about it";
}

}  // namespace

bool CanBeReplayed(const v1::Reply& reply) {
  if (IsComplete(reply)) return true;
  switch (reply.content()) {
    case v1::REPLY_CONTENT_REDACTED:
    case v1::REPLY_CONTENT_REFERENCE:
      return true;
    case v1::REPLY_CONTENT_STATUS_ONLY:
      // Callers act on an error's code and message. An OK without its message would look like a
      // reply with an empty one.
      return reply.code() != 0;
    default:
      // From a newer service.
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

absl::Status OutcomeUnknownRejection(const v1::OutcomeUnknown& unknown) {
  ErrorDetails details;
  details.metadata["cause"] = CauseName(unknown.cause());
  details.metadata["attempt"] = absl::StrCat(unknown.attempt());
  std::string when;
  if (unknown.has_since()) {
    const std::string since =
        absl::FormatTime(absl::RFC3339_sec, FromWire(unknown.since()), absl::UTCTimeZone());
    details.metadata["since"] = since;
    when = absl::StrCat(" at ", since);
  }
  if (!unknown.reason().empty()) details.metadata["reason"] = unknown.reason();
  return MakeError(
      Reason::kOutcomeUnknown,
      absl::StrCat("attempt ", unknown.attempt(), " ended", when,
                   ", and its outcome is unknown: ", WhatHappened(unknown),
                   ". It may have taken effect, so nothing runs again under this key and a retry "
                   "does not help: determine what it did, and settle the record (a recovery "
                   "handler, the completion ledger, or an operator)"),
      std::move(details));
}

absl::Status OutcomeUndecided(std::uint32_t attempt, std::string_view reason) {
  v1::OutcomeUnknown unknown;
  unknown.set_attempt(attempt);
  unknown.set_cause(v1::OutcomeUnknown::CAUSE_RELEASED);
  unknown.set_reason(std::string(reason));
  unknown.mutable_since()->set_seconds(absl::ToUnixSeconds(absl::Now()));
  return OutcomeUnknownRejection(unknown);
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
      return KeyReused();
    case v1::ReserveResponse::kOutcomeUnknown:
      return OutcomeUnknownRejection(verdict.outcome_unknown());
    case v1::ReserveResponse::kExpired:
      return MakeError(Reason::kKeyExpired,
                       "this idempotency key is too old to determine whether its operation ran");
    case v1::ReserveResponse::VERDICT_NOT_SET:
      break;
  }
  // A verdict of a newer service: unknown here, so nothing runs.
  return MakeError(Reason::kStoreUnavailable,
                   "the idempotency store returned an unknown verdict; nothing was run",
                   RetryAfter(retry_delays::kUnavailable));
}

v1::Reply RejectionReply(const absl::Status& rejection, std::string_view record_id) {
  const grpc::Status status = ToGrpcStatus(rejection);
  v1::Reply reply;
  reply.set_code(static_cast<int>(status.error_code()));
  reply.set_message(status.error_message());
  reply.set_details(status.error_details());
  MetadataEntries trailers = RecordMetadata(record_id, absl::InfinitePast(), false);
  if (std::optional<std::string> pushback = PushbackFor(rejection); pushback.has_value()) {
    trailers.emplace_back(kPushbackMetadata, *std::move(pushback));
  }
  AddTrailers(std::move(trailers), reply);
  return reply;
}

}  // namespace idempotency::internal

namespace idempotency {

std::optional<std::string> PushbackFor(const absl::Status& error) {
  const std::optional<Reason> reason = ReasonOf(error);
  // Retries do not change the one, and run the operation again after the other, under any retry
  // policy of a client.
  if (reason == Reason::kOutcomeUnknown || internal::WouldRunAgain(error)) {
    return std::string(kNoRetryPushback);
  }
  if (reason != Reason::kInFlight) return PushbackOf(error);
  ErrorDetails details = DetailsOf(error);
  if (details.retry_delay) {
    details.retry_delay = std::min(*details.retry_delay, internal::kLongestPushback);
  }
  return PushbackOf(MakeError(*reason, /*message=*/"", std::move(details)));
}

}  // namespace idempotency

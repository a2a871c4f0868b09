#include "examples/payments/outcome.h"

#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"

namespace payments {
namespace {

std::string Trailer(const grpc::ClientContext& context, std::string_view key) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find(grpc::string_ref(key.data(), key.size()));
  if (found == trailers.end()) return "";
  return std::string(found->second.data(), found->second.size());
}

}  // namespace

Outcome OutcomeOf(const grpc::Status& status, const grpc::ClientContext& context) {
  Outcome outcome;
  outcome.status = status;
  if (const auto reason = idempotency::ReasonOf(idempotency::FromGrpcStatus(status))) {
    outcome.reason = std::string(idempotency::ReasonName(*reason));
  }
  outcome.replayed = Trailer(context, idempotency::kReplayedMetadata) == "true";
  outcome.record_id = Trailer(context, idempotency::kRecordMetadata);
  outcome.expires = Trailer(context, idempotency::kExpiresMetadata);
  return outcome;
}

std::string ToLine(const Outcome& outcome, const std::string& fields) {
  std::string line = CodeName(outcome.status.error_code());
  if (!outcome.reason.empty()) absl::StrAppend(&line, " ", outcome.reason);
  if (outcome.status.ok() && !fields.empty()) absl::StrAppend(&line, " ", fields);
  absl::StrAppend(&line, " replayed=", outcome.replayed ? "true" : "false");
  if (!outcome.record_id.empty()) absl::StrAppend(&line, " record=", outcome.record_id);
  if (!outcome.expires.empty()) absl::StrAppend(&line, " expires=", outcome.expires);
  if (!outcome.status.ok()) {
    absl::StrAppend(&line, " message=\"", outcome.status.error_message(), "\"");
  }
  return line;
}

std::string CodeName(int code) {
  if (code < 0 || code > static_cast<int>(absl::StatusCode::kUnauthenticated)) {
    return absl::StrCat("CODE_", code);
  }
  return absl::StatusCodeToString(static_cast<absl::StatusCode>(code));
}

}  // namespace payments

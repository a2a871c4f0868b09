#include "interceptors/ext_proc/front/http_front.h"

#include <grpcpp/support/status_code_enum.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/util/json_util.h"

#include "core/absl_view.h"
#include "core/retry_delays.h"
#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/reply.h"
#include "interceptors/ext_proc/exchange/content_coding.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/wire/record_metadata.h"

namespace idempotency::internal {
namespace {

// The entry of a record's initial metadata with the status. No upstream's header has this name: it
// is left out.
constexpr char kStatusEntry[] = ".http-status";
// An entry with a header whose name or value metadata cannot have: "NAME: VALUE".
constexpr char kRawEntry[] = ".http-header-bin";
constexpr char kMessagePrefix[] = "HTTP ";
constexpr int kInternalError = 500;
constexpr char kProblemType[] = "application/problem+json";
// Those of this library have a few sentences.
constexpr std::size_t kMaxProblemBytes = 64 * 1024;

// Of one response alone.
bool IsOfOneResponse(std::string_view name) {
  static constexpr std::array<std::string_view, 10> kNames = {
      "connection", "keep-alive", "proxy-connection", "transfer-encoding",
      "upgrade",    "te",         "trailer",          "content-length",
      "date",       "server"};
  return name.empty() || name[0] == ':' || name[0] == '.' ||
         absl::StartsWith(AbslView(name), "x-envoy-") || IsRecordMetadata(name) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

bool IsMetadata(std::string_view name, std::string_view value) {
  const auto of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  const auto printable = [](char c) { return c >= 0x20 && c <= 0x7E; };
  return std::all_of(name.begin(), name.end(), of_name) &&
         std::all_of(value.begin(), value.end(), printable);
}

void AddEntry(std::string_view name, std::string_view value,
              google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata) {
  v1::MetadataEntry& entry = *metadata.Add();
  entry.set_key(std::string(name));
  entry.set_value(std::string(value));
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// A replayed failure does not change by waiting. With other statuses it is a part of the outcome:
// when a job that was accepted, or the target of a redirect, is to be looked at.
bool IsRetryTimeOfFailure(std::string_view name, int status) {
  return status >= 400 && name == "retry-after";
}

void Store(const HeaderList& headers, int status, const std::vector<std::string>& unrecorded,
           google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata) {
  for (const auto& [name, value] : headers.all()) {
    if (IsOfOneResponse(name) || IsRetryTimeOfFailure(name, status)) continue;
    if (Contains(unrecorded, name)) continue;
    if (IsMetadata(name, value)) {
      AddEntry(name, value, metadata);
    } else {
      AddEntry(kRawEntry, absl::StrCat(name, ": ", value), metadata);
    }
  }
}

void Add(const v1::MetadataEntry& entry, HeaderList& headers) {
  if (entry.key() != kRawEntry) {
    if (entry.key() != kStatusEntry) headers.Add(entry.key(), entry.value());
    return;
  }
  const std::size_t colon = entry.value().find(": ");
  if (colon == std::string::npos) return;
  headers.Add(entry.value().substr(0, colon), entry.value().substr(colon + 2));
}

// 0 unless it is a final status.
int StatusOf(const HeaderList& headers) {
  int status = 0;
  const std::string_view text = headers.OnlyValueOf(":status").value_or("");
  const bool valid = absl::SimpleAtoi(AbslView(text), &status) && status >= 200 && status <= 599;
  return valid ? status : 0;
}

grpc::StatusCode CodeFor(int status) {
  if (status >= 200 && status < 400) return grpc::StatusCode::OK;
  switch (status) {
    case 401:
      return grpc::StatusCode::UNAUTHENTICATED;
    case 403:
      return grpc::StatusCode::PERMISSION_DENIED;
    case 404:
    case 410:
      return grpc::StatusCode::NOT_FOUND;
    case 408:
    case 504:
      return grpc::StatusCode::DEADLINE_EXCEEDED;
    case 409:
      return grpc::StatusCode::ALREADY_EXISTS;
    case 412:
    case 424:
    case 428:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case 416:
      return grpc::StatusCode::OUT_OF_RANGE;
    case 425:
      return grpc::StatusCode::ABORTED;
    case 429:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case 499:
      return grpc::StatusCode::CANCELLED;
    case 500:
      return grpc::StatusCode::INTERNAL;
    case 501:
      return grpc::StatusCode::UNIMPLEMENTED;
    case 502:
    case 503:
      return grpc::StatusCode::UNAVAILABLE;
    default:
      return status >= 400 && status < 500 ? grpc::StatusCode::INVALID_ARGUMENT
                                           : grpc::StatusCode::UNKNOWN;
  }
}

// The inverse of CodeFor(), as far as it has one.
int StatusFor(int code) {
  switch (static_cast<grpc::StatusCode>(code)) {
    case grpc::StatusCode::OK:
      return 200;
    case grpc::StatusCode::CANCELLED:
      return 499;
    case grpc::StatusCode::INVALID_ARGUMENT:
      return 400;
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return 504;
    case grpc::StatusCode::NOT_FOUND:
      return 404;
    case grpc::StatusCode::ALREADY_EXISTS:
      return 409;
    case grpc::StatusCode::PERMISSION_DENIED:
      return 403;
    case grpc::StatusCode::UNAUTHENTICATED:
      return 401;
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return 429;
    case grpc::StatusCode::FAILED_PRECONDITION:
      return 412;
    case grpc::StatusCode::ABORTED:
      return 425;
    case grpc::StatusCode::OUT_OF_RANGE:
      return 416;
    case grpc::StatusCode::UNIMPLEMENTED:
      return 501;
    case grpc::StatusCode::UNAVAILABLE:
      return 503;
    default:
      return kInternalError;
  }
}

int StatusFor(const absl::Status& why) {
  const std::optional<Reason> reason = ReasonOf(why);
  if (!reason.has_value()) {
    if (absl::IsUnauthenticated(why)) return 401;
    if (absl::IsPermissionDenied(why)) return 403;
    return absl::IsUnavailable(why) ? 503 : kInternalError;
  }
  switch (*reason) {
    case Reason::kKeyMissing:
    case Reason::kKeyInvalid:
    case Reason::kRequestInvalid:
      return 400;
    case Reason::kKeyReused:
      return 422;
    case Reason::kInFlight:
    case Reason::kOutcomeUnknown:
    case Reason::kReservationLost:
    case Reason::kReplyNotKept:
      return 409;
    case Reason::kKeyExpired:
      return 410;
    case Reason::kQuotaExceeded:
      return 429;
    case Reason::kStoreUnavailable:
    case Reason::kOutcomeNotRecorded:
    case Reason::kOverloaded:
      return 503;
    case Reason::kCredentialsInvalid:
      return 401;
    case Reason::kAccessDenied:
      return 403;
    default:
      return kInternalError;
  }
}

std::string Title(const std::optional<Reason>& reason) {
  if (!reason.has_value()) return "The request was refused";
  std::string title(ReasonName(*reason));
  std::replace(title.begin(), title.end(), '_', ' ');
  std::transform(title.begin() + 1, title.end(), title.begin() + 1,
                 [](unsigned char c) { return static_cast<char>(absl::ascii_tolower(c)); });
  return title;
}

// Before the reason, in the type of a problem.
std::string ProblemTag() { return absl::StrCat("tag:", AbslView(kErrorDomain), ",2026:"); }

// RFC 9457. The type identifies the reason, and is no address.
std::string Problem(int status, const std::optional<Reason>& reason, absl::string_view detail) {
  google::protobuf::Struct problem;
  auto& fields = *problem.mutable_fields();
  const std::string name = reason.has_value() ? std::string(ReasonName(*reason)) : "";
  fields["type"].set_string_value(name.empty() ? "about:blank" : absl::StrCat(ProblemTag(), name));
  fields["title"].set_string_value(Title(reason));
  fields["status"].set_number_value(status);
  fields["detail"].set_string_value(ToUtf8({detail.data(), detail.size()}));
  if (!name.empty()) fields["reason"].set_string_value(name);
  std::string json;
  if (!google::protobuf::util::MessageToJsonString(problem, &json).ok()) json = "{}";
  return json;
}

// The details of the gRPC error that corresponds to a problem of another guard: by them the
// response is no outcome (IsOutcome). "" for any other response, and for a replay without content.
std::string DetailsOfProblem(const HttpMessage& response) {
  if (response.headers.Has(kContentMetadata)) return "";
  const std::string_view type = response.headers.OnlyValueOf("content-type").value_or("");
  if (!absl::StartsWithIgnoreCase(AbslView(type), kProblemType) ||
      response.body.size() > kMaxProblemBytes) {
    return "";
  }
  google::protobuf::Struct problem;
  if (!google::protobuf::util::JsonStringToMessage(response.body, &problem).ok()) return "";
  const auto found = problem.fields().find("type");
  if (found == problem.fields().end()) return "";
  absl::string_view name = found->second.string_value();
  if (!absl::ConsumePrefix(&name, ProblemTag())) return "";
  // A newer version may have other reasons: only the domain counts.
  const Reason reason =
      ReasonFromName({name.data(), name.size()}).value_or(Reason::kOutcomeNotRecorded);
  return ToGrpcStatus(MakeError(reason, "")).error_details();
}

void AddRecordMetadata(const v1::Reply& reply, HeaderList& headers) {
  for (const v1::MetadataEntry& entry : reply.trailing_metadata()) {
    if (IsRecordMetadata(entry.key())) headers.Add(entry.key(), entry.value());
  }
}

// The status in a reply's message; nullopt: it has none.
std::optional<int> StatusInMessage(const v1::Reply& reply) {
  int status = 0;
  absl::string_view text = reply.message();
  if (!absl::ConsumePrefix(&text, kMessagePrefix) || !absl::SimpleAtoi(text, &status) ||
      status < 200 || status > 599) {
    return std::nullopt;
  }
  return status;
}

// For a record without its content: only a status remains.
HttpMessage StatusOnly(const v1::Reply& reply) {
  const int status = StatusInMessage(reply).value_or(kInternalError);
  HttpMessage response;
  response.headers.Add(":status", absl::StrCat(status));
  response.headers.Add("content-type", kProblemType);
  AddRecordMetadata(reply, response.headers);
  response.body = Problem(status, Reason::kReplyNotKept,
                          "the operation ended with this status; the rest of the response was not "
                          "kept");
  return response;
}

}  // namespace

v1::Reply HttpFront::Capture(const HttpMessage& response, bool whole) const {
  v1::Reply reply;
  const int status = StatusOf(response.headers);
  reply.set_code(static_cast<int>(CodeFor(status)));
  reply.set_message(absl::StrCat(kMessagePrefix, status));
  if (reply.code() != 0) {
    std::string details = DetailsOfProblem(response);
    if (!details.empty()) reply.set_details(std::move(details));
  }
  // It is not known which encodings the client of a replay accepts.
  if (!whole || !ContentCodings(response.headers).empty()) return CapturedWithoutContent(reply);
  AddEntry(kStatusEntry, absl::StrCat(status), *reply.mutable_initial_metadata());
  Store(response.headers, status, unrecorded_, *reply.mutable_initial_metadata());
  if (response.trailers.has_value()) {
    Store(*response.trailers, status, unrecorded_, *reply.mutable_trailing_metadata());
  }
  reply.set_body(response.body);
  return reply;
}

HttpMessage HttpFront::Restore(const v1::Reply& reply) const {
  HttpMessage response;
  for (const v1::MetadataEntry& entry : reply.initial_metadata()) {
    if (entry.key() == kStatusEntry) response.headers.Add(":status", entry.value());
  }
  if (!response.headers.Has(":status") && IsComplete(reply)) {
    // The reply of an administrator, who has settled the record.
    const int status = StatusInMessage(reply).value_or(StatusFor(reply.code()));
    response.headers.Add(":status", absl::StrCat(status));
  }
  if (StatusOf(response.headers) == 0) return StatusOnly(reply);
  for (const v1::MetadataEntry& entry : reply.initial_metadata()) Add(entry, response.headers);
  AddRecordMetadata(reply, response.headers);
  HeaderList trailers;
  for (const v1::MetadataEntry& entry : reply.trailing_metadata()) {
    if (!IsRecordMetadata(entry.key())) Add(entry, trailers);
  }
  if (!trailers.all().empty()) response.trailers = std::move(trailers);
  response.body = reply.body();
  response.headers_only = response.body.empty() && !response.trailers.has_value();
  return response;
}

HttpMessage HttpFront::Reject(const absl::Status& why, std::string_view record_id) const {
  const int status = StatusFor(why);
  HttpMessage response;
  response.headers.Add(":status", absl::StrCat(status));
  response.headers.Add("content-type", kProblemType);
  std::optional<absl::Duration> delay = DetailsOf(why).retry_delay;
  if (!delay.has_value() && status == 503) delay = retry_delays::kUnavailable;
  if (delay.has_value()) {
    // Whole seconds, rounded up.
    const std::int64_t seconds = absl::ToInt64Seconds(absl::Ceil(*delay, absl::Seconds(1)));
    response.headers.Add("retry-after", absl::StrCat(std::max<std::int64_t>(seconds, 1)));
  }
  for (const auto& [name, value] : RecordMetadata(record_id, absl::InfinitePast(), false)) {
    response.headers.Add(name, value);
  }
  response.body = Problem(status, ReasonOf(why), why.message());
  return response;
}

}  // namespace idempotency::internal

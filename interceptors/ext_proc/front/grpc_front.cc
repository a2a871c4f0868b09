#include "interceptors/ext_proc/front/grpc_front.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/absl_view.h"
#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/reply.h"
#include "interceptors/ext_proc/front/grpc_wire.h"
#include "interceptors/server/admission/rejection.h"
#include "interceptors/server/policy/disposition_rule.h"
#include "interceptors/server/wire/record_metadata.h"

namespace idempotency::internal {
namespace {

constexpr int kMaxStatusCode = 16;
constexpr int kUnknown = 2;
constexpr std::string_view kDetailsHeader = "grpc-status-details-bin";

// Headers of HTTP, gRPC or Envoy; no handler sets them.
bool IsOfTransport(std::string_view name) {
  static constexpr std::array<std::string_view, 14> kNames = {"content-type",
                                                              "content-length",
                                                              "grpc-encoding",
                                                              "grpc-accept-encoding",
                                                              "accept-encoding",
                                                              "grpc-status",
                                                              "grpc-message",
                                                              kDetailsHeader,
                                                              "connection",
                                                              "date",
                                                              "server",
                                                              "trailer",
                                                              "transfer-encoding",
                                                              "te"};
  if (name.empty() || name[0] == ':' || absl::StartsWith(AbslView(name), "x-envoy-")) return true;
  for (const std::string_view known : kNames) {
    if (name == known) return true;
  }
  return false;
}

bool IsMetadataName(std::string_view name) {
  for (const char c : name) {
    const bool valid =
        (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    if (!valid) return false;
  }
  return !name.empty();
}

bool IsPrintable(std::string_view value) {
  for (const char c : value) {
    if (c < 0x20 || c > 0x7E) return false;
  }
  return true;
}

void AddEntry(std::string_view name, std::string value,
              google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata) {
  v1::MetadataEntry& entry = *metadata.Add();
  entry.set_key(std::string(name));
  entry.set_value(std::move(value));
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Entries that gRPC's own libraries would not pass to a client are left out.
void CaptureMetadata(const HeaderList& headers, const std::vector<std::string>& unrecorded,
                     google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata) {
  for (const auto& [name, value] : headers.all()) {
    if (IsOfTransport(name) || IsRecordMetadata(name) || !IsMetadataName(name)) continue;
    if (Contains(unrecorded, name)) continue;
    if (!IsBinaryHeader(name)) {
      if (IsPrintable(value)) AddEntry(name, value, metadata);
      continue;
    }
    // Proxies may have joined several.
    for (const absl::string_view part : absl::StrSplit(value, ',')) {
      std::optional<std::string> bytes = DecodeBinaryHeader({part.data(), part.size()});
      if (bytes.has_value()) AddEntry(name, *std::move(bytes), metadata);
    }
  }
}

// nullopt if there are some, of which none can be read. A handler that forwards another service's
// trailers sends several, and proxies may have joined them.
std::optional<std::string> DetailsIn(const HeaderList& headers) {
  std::vector<std::string> details;
  const std::vector<std::string_view> values = headers.ValuesOf(kDetailsHeader);
  for (const std::string_view value : values) {
    for (const absl::string_view part : absl::StrSplit(AbslView(value), ',')) {
      std::optional<std::string> bytes = DecodeBinaryHeader({part.data(), part.size()});
      if (bytes.has_value()) details.push_back(*std::move(bytes));
    }
  }
  if (details.empty() && !values.empty()) return std::nullopt;
  return DetailsAmong(std::move(details));
}

// UNKNOWN, which is never recorded, if there is no status: the end of the reply was lost. The same
// for a failure with unreadable details: they may be an error of the catalogue.
void CaptureStatus(const HeaderList& headers, v1::Reply& reply) {
  int code = kUnknown;
  const std::optional<std::string_view> status = headers.OnlyValueOf("grpc-status");
  if (!status.has_value() || !absl::SimpleAtoi(AbslView(*status), &code) || code < 0 ||
      code > kMaxStatusCode) {
    code = kUnknown;
  }
  std::optional<std::string> details = DetailsIn(headers);
  if (!details.has_value() && code != 0) code = kUnknown;
  reply.set_code(code);
  if (const auto message = headers.OnlyValueOf("grpc-message"); message.has_value()) {
    reply.set_message(ToUtf8(DecodeStatusMessage(*message)));
  }
  if (details.has_value() && !details->empty()) reply.set_details(*std::move(details));
}

// Metadata that is illegal in HTTP is left out: an operator may have settled a record by hand.
void RestoreMetadata(const google::protobuf::RepeatedPtrField<v1::MetadataEntry>& metadata,
                     HeaderList& headers) {
  for (const v1::MetadataEntry& entry : metadata) {
    if (!IsMetadataName(entry.key())) continue;
    if (IsBinaryHeader(entry.key())) {
      headers.Add(entry.key(), EncodeBinaryHeader(entry.value()));
    } else if (IsPrintable(entry.value())) {
      headers.Add(entry.key(), entry.value());
    }
  }
}

void RestoreStatus(const v1::Reply& reply, HeaderList& headers) {
  headers.Add("grpc-status", absl::StrCat(static_cast<int>(StatusCodeFrom(reply.code()))));
  if (!reply.message().empty()) {
    headers.Add("grpc-message", EncodeStatusMessage(reply.message()));
  }
  if (!reply.details().empty()) {
    headers.Add(kDetailsHeader, EncodeBinaryHeader(reply.details()));
  }
}

}  // namespace

absl::StatusOr<std::string_view> UnaryMessage(std::string_view body) {
  const std::optional<GrpcMessages> read = ReadGrpcMessages(body);
  if (!read.has_value()) return InvalidField("request", "is not a sequence of gRPC messages");
  if (read->compressed) {
    return InvalidField("request",
                        "is compressed, and compressed bytes cannot be compared: send it "
                        "uncompressed");
  }
  if (read->messages.size() != 1) {
    return InvalidField("request", absl::StrCat("has ", read->messages.size(),
                                                " messages: only unary methods can be guarded"));
  }
  return read->messages[0];
}

v1::Reply GrpcFront::Capture(const HttpMessage& response, bool whole) const {
  v1::Reply reply;
  if (response.headers_only) {
    CaptureStatus(response.headers, reply);
    CaptureMetadata(response.headers, unrecorded_, *reply.mutable_trailing_metadata());
  } else {
    CaptureMetadata(response.headers, unrecorded_, *reply.mutable_initial_metadata());
    // A status in headers that are not the end is none: the trailers were lost.
    const HeaderList trailers = response.trailers.value_or(HeaderList());
    CaptureStatus(trailers, reply);
    CaptureMetadata(trailers, unrecorded_, *reply.mutable_trailing_metadata());
  }
  // Every reply of gRPC has 200: another one is of something in between.
  if (response.headers.OnlyValueOf(":status") != "200") reply.set_code(kUnknown);
  if (!whole) return CapturedWithoutContent(reply);
  const std::optional<GrpcMessages> read = ReadGrpcMessages(response.body);
  if (!read.has_value()) {
    // A part of it is missing: nothing that can be replayed.
    if (reply.code() == 0) reply.set_code(kUnknown);
    return reply;
  }
  // It is not known which compression the replay's client accepts.
  if (read->compressed) return CapturedWithoutContent(reply);
  if (read->messages.size() == 1) {
    reply.set_body(std::string(read->messages[0]));
  } else {
    for (const std::string_view message : read->messages) {
      reply.add_stream(std::string(message));
    }
  }
  return reply;
}

HttpMessage GrpcFront::Restore(const v1::Reply& reply) const {
  HttpMessage response;
  response.headers.Add(":status", "200");
  response.headers.Add("content-type", "application/grpc");
  RestoreMetadata(reply.initial_metadata(), response.headers);
  const bool has_messages = reply.has_body() || !reply.stream().empty();
  if (reply.code() != 0 && !has_messages && reply.initial_metadata().empty()) {
    response.headers_only = true;
    RestoreStatus(reply, response.headers);
    RestoreMetadata(reply.trailing_metadata(), response.headers);
    return response;
  }
  if (reply.has_body()) AppendGrpcMessage(reply.body(), response.body);
  for (const std::string& message : reply.stream()) AppendGrpcMessage(message, response.body);
  response.trailers.emplace();
  RestoreStatus(reply, *response.trailers);
  RestoreMetadata(reply.trailing_metadata(), *response.trailers);
  return response;
}

HttpMessage GrpcFront::Reject(const absl::Status& why, std::string_view record_id) const {
  return Restore(RejectionReply(why, record_id));
}

}  // namespace idempotency::internal

#include "server/operation/page_token.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/string_view.h"

#include "core/absl_view.h"
#include "core/length_prefix.h"
#include "core/sha256.h"
#include "core/utf8.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

constexpr std::size_t kDigestBytes = 16;
constexpr std::size_t kIdBytes = 16;
constexpr std::size_t kSequenceBytes = 8;

// Everything that selects the records, and that every page must share.
std::string DigestOf(std::string_view kind, const google::protobuf::Message& selection) {
  std::string text;
  AppendPart(kind, text);
  AppendPart(selection.SerializeAsString(), text);
  const Sha256Digest digest = Sha256(text);
  return std::string(digest.begin(), digest.begin() + kDigestBytes);
}

std::string DigestOf(v1::ListRequest request) {
  request.clear_page_size();
  request.clear_page_token();
  return DigestOf("list", request);
}

std::string DigestOf(v1::PurgeRequest request) {
  request.clear_page_token();
  request.clear_reason();
  return DigestOf("purge", request);
}

std::string DigestOf(v1::ResealRequest request) {
  request.clear_page_token();
  request.clear_reason();
  return DigestOf("reseal", request);
}

std::string DigestOf(v1::ListAuditRequest request) {
  request.clear_page_size();
  request.clear_page_token();
  return DigestOf("audit", request);
}

// What stands behind the digest.
absl::StatusOr<std::string> PayloadOf(const std::string& token, const std::string& digest) {
  std::string bytes;
  if (!absl::WebSafeBase64Unescape(token, &bytes) || bytes.size() < digest.size() ||
      bytes.compare(0, digest.size(), digest) != 0) {
    return InvalidField("page_token",
                        "does not belong to this request; continue with the same fields, or leave "
                        "it empty to begin again");
  }
  return bytes.substr(digest.size());
}

std::string TokenFor(const std::string& digest, const std::optional<RecordPlace>& place) {
  if (!place) return "";
  const Uuid::Bytes& id = place->id.bytes();
  std::string bytes = digest;
  bytes.append(id.begin(), id.end());
  bytes += place->scope;
  return absl::WebSafeBase64Escape(bytes);
}

absl::StatusOr<std::optional<RecordPlace>> PlaceIn(const std::string& token,
                                                   const std::string& digest) {
  if (token.empty()) return std::optional<RecordPlace>();
  const absl::StatusOr<std::string> payload = PayloadOf(token, digest);
  if (!payload.ok()) return payload.status();
  RecordPlace place;
  Uuid::Bytes id{};
  if (payload->size() >= kIdBytes) place.scope = payload->substr(kIdBytes);
  if (payload->size() < kIdBytes || place.scope.size() > limits::kMaxScopeBytes ||
      !IsUtf8WithoutControls(place.scope)) {
    return InvalidField("page_token", "is not a token of this service");
  }
  std::copy_n(payload->begin(), kIdBytes, id.begin());
  place.id = RecordId(id);
  return std::optional<RecordPlace>(place);
}

}  // namespace

std::string PageTokenFor(const v1::ListRequest& request, const std::optional<RecordPlace>& place) {
  return TokenFor(DigestOf(request), place);
}

std::string PageTokenFor(const v1::PurgeRequest& request, const std::optional<RecordPlace>& place) {
  return TokenFor(DigestOf(request), place);
}

std::string PageTokenFor(const v1::ResealRequest& request,
                         const std::optional<RecordPlace>& place) {
  return TokenFor(DigestOf(request), place);
}

std::string PageTokenFor(const v1::ListAuditRequest& request,
                         std::optional<std::int64_t> sequence) {
  if (!sequence) return "";
  std::string bytes = DigestOf(request);
  for (int shift = 56; shift >= 0; shift -= 8) {
    bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(*sequence) >> shift));
  }
  return absl::WebSafeBase64Escape(bytes);
}

absl::StatusOr<std::optional<RecordPlace>> PlaceOf(const v1::ListRequest& request) {
  return PlaceIn(request.page_token(), DigestOf(request));
}

absl::StatusOr<std::optional<RecordPlace>> PlaceOf(const v1::PurgeRequest& request) {
  return PlaceIn(request.page_token(), DigestOf(request));
}

absl::StatusOr<std::optional<RecordPlace>> PlaceOf(const v1::ResealRequest& request) {
  return PlaceIn(request.page_token(), DigestOf(request));
}

absl::StatusOr<std::int64_t> SequenceOf(const v1::ListAuditRequest& request) {
  if (request.page_token().empty()) return 0;
  const absl::StatusOr<std::string> payload = PayloadOf(request.page_token(), DigestOf(request));
  if (!payload.ok()) return payload.status();
  if (payload->size() != kSequenceBytes) {
    return InvalidField("page_token", "is not a token of this service");
  }
  std::uint64_t sequence = 0;
  for (const char c : *payload) sequence = sequence << 8 | static_cast<std::uint8_t>(c);
  const auto place = static_cast<std::int64_t>(sequence);
  if (place < 0) return InvalidField("page_token", "is not a token of this service");
  return place;
}

}  // namespace idempotency::internal

#include "server/access/token_issuer.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace idempotency::internal {
namespace {

using google::protobuf::Struct;
using google::protobuf::Value;

absl::Status Refused(absl::string_view fault) { return absl::UnauthenticatedError(fault); }

std::optional<Struct> JsonPart(absl::string_view part) {
  std::string json;
  Struct object;
  if (!absl::WebSafeBase64Unescape(part, &json) ||
      !google::protobuf::util::JsonStringToMessage(json, &object).ok()) {
    return std::nullopt;
  }
  return object;
}

const Value* Find(const Struct& object, const std::string& field) {
  const auto found = object.fields().find(field);
  return found == object.fields().end() ? nullptr : &found->second;
}

std::string TextOf(const Struct& object, const std::string& field) {
  const Value* const value = Find(object, field);
  return value == nullptr ? "" : value->string_value();
}

// A NumericDate (RFC 7519, 2); nullopt if it is absent or not a time.
std::optional<absl::Time> TimeOf(const Struct& object, const std::string& field) {
  const Value* const value = Find(object, field);
  if (value == nullptr || !value->has_number_value() || !std::isfinite(value->number_value())) {
    return std::nullopt;
  }
  return absl::UnixEpoch() + absl::Seconds(value->number_value());
}

// `aud` is a text or a list of texts.
bool IsFor(const Struct& claims, const std::string& audience) {
  const Value* const value = Find(claims, "aud");
  if (value == nullptr) return false;
  if (value->has_string_value()) return value->string_value() == audience;
  const auto& all = value->list_value().values();
  return std::any_of(all.begin(), all.end(),
                     [&audience](const Value& one) { return one.string_value() == audience; });
}

}  // namespace

bool LooksLikeJsonWebToken(absl::string_view token) {
  return std::count(token.begin(), token.end(), '.') == 2;
}

absl::StatusOr<std::string> ClaimedIssuer(absl::string_view token) {
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused("the token is not a JSON Web Token");
  const std::optional<Struct> claims = JsonPart(parts[1]);
  if (!claims.has_value()) return Refused("the token's claims are not a JSON object");
  return TextOf(*claims, "iss");
}

bool TokenIssuer::IsSigned(absl::string_view header_text, absl::string_view signed_text,
                           absl::string_view signature) const {
  const std::optional<Struct> header = JsonPart(header_text);
  std::string bytes;
  if (!header.has_value() || Find(*header, "crit") != nullptr ||
      !absl::WebSafeBase64Unescape(signature, &bytes)) {
    return false;
  }
  const std::string algorithm = TextOf(*header, "alg");
  const std::string id = TextOf(*header, "kid");
  // One signature is verified for a token, whatever its header is, unless the issuer's keys have no
  // ids: a caller without an identity must not cost more.
  const auto of_algorithm = [&algorithm](const JsonWebKey& key) {
    return key.algorithm_name() == algorithm;
  };
  const bool only = std::count_if(keys_.begin(), keys_.end(), of_algorithm) == 1;
  return std::any_of(keys_.begin(), keys_.end(), [&](const JsonWebKey& key) {
    const bool named = key.id().empty() || (id.empty() ? only : key.id() == id);
    return of_algorithm(key) && named && key.Verifies(signed_text, bytes);
  });
}

absl::StatusOr<VerifiedToken> TokenIssuer::Verify(absl::string_view token, absl::Time now) const {
  const std::vector<absl::string_view> parts = absl::StrSplit(token, '.');
  if (parts.size() != 3) return Refused("the token is not a JSON Web Token");
  const absl::string_view signed_text = token.substr(0, token.size() - parts[2].size() - 1);
  if (!IsSigned(parts[0], signed_text, parts[2])) {
    return Refused("no current key of the issuer verifies the token's signature");
  }
  const std::optional<Struct> claims = JsonPart(parts[1]);
  if (!claims.has_value()) return Refused("the token's claims are not a JSON object");
  if (TextOf(*claims, "iss") != issuer_) return Refused("the token is another issuer's");
  if (!IsFor(*claims, audience_)) return Refused("the token is for another audience");
  const std::optional<absl::Time> expires = TimeOf(*claims, "exp");
  if (!expires.has_value()) return Refused("the token has no time of expiry");
  if (now >= *expires + kTokenClockTolerance) return Refused("the token has expired");
  if (Find(*claims, "nbf") != nullptr) {
    const std::optional<absl::Time> begins = TimeOf(*claims, "nbf");
    if (!begins.has_value() || now < *begins - kTokenClockTolerance) {
      return Refused("the token is not valid yet");
    }
  }
  VerifiedToken verified{issuer_, TextOf(*claims, "sub"), *expires + kTokenClockTolerance};
  if (verified.subject.empty()) return Refused("the token has no subject");
  return verified;
}

}  // namespace idempotency::internal

#include "ctl/envoy/envoy_route.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace idempotency::internal {
namespace {

// Those that an idempotency key is for. GET, HEAD, PUT and DELETE are idempotent by RFC 9110, but a
// service may need the first reply of a PUT or a DELETE again.
constexpr std::array<absl::string_view, 4> kHttpMethods = {"DELETE", "PATCH", "POST", "PUT"};

bool IsNameCharacter(char character) {
  return absl::ascii_isalnum(static_cast<unsigned char>(character)) || character == '_' ||
         character == '.' || character == '*';
}

absl::Status WrongMethod(absl::string_view pattern) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", pattern,
                   "' is not a method: write package.Service/Method, for example "
                   "payments.v1.Payments/Charge or payments.v1.*/Create*"));
}

absl::Status WrongRoute(absl::string_view pattern, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", pattern, "' is not a route: ", why,
                   "; write METHOD /path, for example POST /v1/payments/{id}"));
}

// `text` for RE2, with `wildcard` for each *.
std::string Expression(absl::string_view text, absl::string_view wildcard) {
  std::string expression;
  for (const char character : text) {
    if (character == '*') {
      absl::StrAppend(&expression, wildcard);
    } else if (absl::ascii_isalnum(static_cast<unsigned char>(character)) || character == '_' ||
               character == '/' || character == '-') {
      expression += character;
    } else {
      absl::StrAppend(&expression, "\\", absl::string_view(&character, 1));
    }
  }
  return expression;
}

// Of a path, also where it is escaped: Envoy decodes unreserved characters alone before it compares
// (RFC 3986, section 2.3), and most frameworks decode the reserved ones too.
std::string LiteralExpression(absl::string_view segment) {
  std::string expression;
  for (const char character : segment) {
    const std::string one = Expression(absl::string_view(&character, 1), "");
    const bool is_unreserved = absl::ascii_isalnum(static_cast<unsigned char>(character)) ||
                               absl::StrContains("-._~", absl::string_view(&character, 1));
    if (is_unreserved) {
      expression += one;
    } else {
      absl::StrAppendFormat(&expression, "(?:%s|%%%02X)", one, character);
    }
  }
  return expression;
}

// Whether a path may have the character without an escape (RFC 3986). An escaped slash is refused
// by Envoy itself.
bool IsPathCharacter(char character) {
  return absl::ascii_isalnum(static_cast<unsigned char>(character)) ||
         absl::StrContains("-._~!$&'()+,;=:@*", absl::string_view(&character, 1));
}

absl::StatusOr<std::string> SegmentExpression(absl::string_view pattern,
                                              absl::string_view segment) {
  if (segment == "*" || (segment.size() > 2 && segment.front() == '{' && segment.back() == '}' &&
                         std::all_of(segment.begin() + 1, segment.end() - 1, IsNameCharacter))) {
    return std::string("[^/]+");
  }
  if (segment.empty()) return WrongRoute(pattern, "a segment of its path is empty");
  if (segment == "." || segment == ".." ||
      !std::all_of(segment.begin(), segment.end(), IsPathCharacter) ||
      absl::StrContains(segment, '*')) {
    return WrongRoute(pattern,
                      absl::StrCat("the segment '", segment, "' is not literal, {name} or *"));
  }
  return LiteralExpression(segment);
}

absl::StatusOr<std::string> PathExpression(absl::string_view pattern, absl::string_view path) {
  if (!absl::StartsWith(path, "/") || path == "/") {
    return WrongRoute(pattern, "its path must begin with / and name something");
  }
  std::string expression = "(?i)";
  for (const absl::string_view segment : absl::StrSplit(path.substr(1), '/')) {
    const absl::StatusOr<std::string> part = SegmentExpression(pattern, segment);
    if (!part.ok()) return part.status();
    absl::StrAppend(&expression, "/", *part);
  }
  return expression + "/?";
}

}  // namespace

absl::StatusOr<EnvoyRoute> RouteOfMethod(absl::string_view pattern) {
  const std::vector<absl::string_view> parts = absl::StrSplit(pattern, '/');
  if (parts.size() != 2 || parts[0].empty() || parts[1].empty() ||
      !std::all_of(parts[0].begin(), parts[0].end(), IsNameCharacter) ||
      !std::all_of(parts[1].begin(), parts[1].end(), IsNameCharacter)) {
    return WrongMethod(pattern);
  }
  EnvoyRoute route;
  route.text = std::string(pattern);
  route.is_regex = absl::StrContains(pattern, '*');
  const std::string spellings = absl::StrCat("(?i)/", Expression(pattern, "[^/]*"), "/?");
  if (route.is_regex) {
    route.path = spellings;
  } else {
    route.path = absl::StrCat("/", pattern);
    route.spellings = spellings;
  }
  return route;
}

absl::StatusOr<EnvoyRoute> RouteOfHttp(absl::string_view pattern) {
  const std::vector<absl::string_view> words = absl::StrSplit(pattern, ' ', absl::SkipEmpty());
  if (words.size() != 2) return WrongRoute(pattern, "it has a method and a path");
  EnvoyRoute route;
  route.text = absl::StrJoin(words, " ");
  for (const absl::string_view method : absl::StrSplit(words[0], '|')) {
    if (std::find(kHttpMethods.begin(), kHttpMethods.end(), method) == kHttpMethods.end()) {
      return WrongRoute(pattern, absl::StrCat("its method must be one or more of ",
                                              absl::StrJoin(kHttpMethods, "|")));
    }
    route.http_methods.emplace_back(method);
  }
  absl::StatusOr<std::string> path = PathExpression(pattern, words[1]);
  if (!path.ok()) return path.status();
  route.path = *std::move(path);
  route.is_regex = true;
  return route;
}

}  // namespace idempotency::internal

#include "interceptors/ext_proc/policy/path_pattern.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/absl_view.h"

namespace idempotency::internal {
namespace {

bool IsOfName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '*';
}

// Greedy matching with one point of return: linear in practice, and never worse than the product of
// the two lengths.
bool MatchesGlob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t star_text = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_text = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos && text[star_text] != '/') {
      p = star + 1;
      t = ++star_text;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

bool IsHexDigit(char c) { return absl::ascii_isxdigit(static_cast<unsigned char>(c)); }

// With its escapes decoded, as most services read it. One that is no escape stays.
std::string Decoded(absl::string_view segment) {
  std::string text;
  for (std::size_t i = 0; i < segment.size(); ++i) {
    if (segment[i] == '%' && i + 2 < segment.size() && IsHexDigit(segment[i + 1]) &&
        IsHexDigit(segment[i + 2])) {
      text += absl::HexStringToBytes(segment.substr(i + 1, 2));
      i += 2;
    } else {
      text += segment[i];
    }
  }
  return text;
}

bool IsLiteral(absl::string_view pattern, absl::string_view segment) {
  return absl::EqualsIgnoreCase(pattern, segment) ||
         (absl::StrContains(segment, '%') && absl::EqualsIgnoreCase(pattern, Decoded(segment)));
}

}  // namespace

absl::StatusOr<MethodPattern> MethodPattern::Parse(std::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(AbslView(text), '/');
  bool valid = parts.size() == 2 && !parts[0].empty() && !parts[1].empty();
  for (const std::string& part : parts) {
    for (const char c : part) valid = valid && IsOfName(c);
  }
  if (!valid) {
    return absl::InvalidArgumentError(
        "must be SERVICE/METHOD, in which '*' stands for any characters but '/'");
  }
  return MethodPattern(text);
}

bool MethodPattern::Matches(std::string_view path) const {
  if (path.empty() || path[0] != '/') return false;
  path.remove_prefix(1);
  // Otherwise a '*' could match none or several slashes.
  const std::size_t slash = path.find('/');
  if (slash == std::string_view::npos || path.find('/', slash + 1) != std::string_view::npos) {
    return false;
  }
  const std::string_view pattern(text_);
  const std::size_t middle = pattern.find('/');
  return MatchesGlob(pattern.substr(0, middle), path.substr(0, slash)) &&
         MatchesGlob(pattern.substr(middle + 1), path.substr(slash + 1));
}

bool MethodPattern::MatchesInAnyCase(std::string_view path) const {
  return MethodPattern(absl::AsciiStrToLower(AbslView(text_)))
      .Matches(absl::AsciiStrToLower(AbslView(path)));
}

// No text of a pattern matches a '*' but another one's '*', so this compares the two as wholes.
bool MethodPattern::Covers(const MethodPattern& other) const { return Matches("/" + other.text_); }

absl::StatusOr<PathPattern> PathPattern::Parse(std::string_view text) {
  const absl::Status invalid = absl::InvalidArgumentError(
      "must begin with '/', and have segments of visible ASCII or {name}");
  if (text.empty() || text[0] != '/') return invalid;
  PathPattern pattern;
  for (const absl::string_view part : absl::StrSplit(AbslView(text).substr(1), '/')) {
    const bool any = part.size() > 2 && part.front() == '{' && part.back() == '}';
    for (const char c : part) {
      if (c <= 0x20 || c >= 0x7F || c == '?' || c == '#') return invalid;
    }
    if (!any && (absl::StrContains(part, '{') || absl::StrContains(part, '}') || part.empty())) {
      return invalid;
    }
    pattern.segments_.push_back(any ? "" : absl::AsciiStrToLower(part));
  }
  return pattern;
}

std::optional<std::string> PathPattern::CommonWith(const PathPattern& other) const {
  if (segments_.size() != other.segments_.size()) return std::nullopt;
  PathPattern common = *this;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    std::string& segment = common.segments_[i];
    if (segment.empty()) {
      segment = other.segments_[i];
    } else if (!other.segments_[i].empty() && segment != other.segments_[i]) {
      return std::nullopt;
    }
  }
  return common.Canonical();
}

std::string PathPattern::Canonical() const {
  std::string path;
  for (const std::string& segment : segments_) {
    absl::StrAppend(&path, "/", segment.empty() ? "{}" : segment);
  }
  return path;
}

bool PathPattern::Matches(std::string_view path) const {
  if (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  if (path.empty() || path[0] != '/') return false;
  absl::string_view rest = AbslView(path).substr(1);
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    const std::size_t slash = rest.find('/');
    const absl::string_view segment = rest.substr(0, slash);
    const bool last = slash == absl::string_view::npos;
    if (segment.empty() || last != (i + 1 == segments_.size())) return false;
    if (!segments_[i].empty() && !IsLiteral(segments_[i], segment)) return false;
    if (!last) rest.remove_prefix(slash + 1);
  }
  return true;
}

}  // namespace idempotency::internal

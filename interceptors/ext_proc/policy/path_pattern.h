// Patterns of the configuration. Thread-safe.
#ifndef IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_PATH_PATTERN_H_
#define IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_PATH_PATTERN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace idempotency::internal {

// The full name of a gRPC method without the leading slash, in which '*' stands for any number of
// characters other than '/': "payments.v1.*/Create*". A value type.
class MethodPattern {
 public:
  // INVALID_ARGUMENT unless it is SERVICE/METHOD of letters, digits, '_', '.' and '*'.
  static absl::StatusOr<MethodPattern> Parse(std::string_view text);

  // `path` as in `:path`: "/payments.v1.Payments/CreateInvoice".
  bool Matches(std::string_view path) const;
  // The same, in any case.
  bool MatchesInAnyCase(std::string_view path) const;
  // It matches every path that `other` does.
  bool Covers(const MethodPattern& other) const;
  // It matches one path only.
  bool is_exact() const { return text_.find('*') == std::string::npos; }
  const std::string& text() const { return text_; }
  // The part before the slash.
  std::string_view service() const { return std::string_view(text_).substr(0, text_.find('/')); }

 private:
  explicit MethodPattern(std::string_view text) : text_(text) {}

  std::string text_;
};

// A path of HTTP, in which a segment in braces stands for any one segment that is not empty:
// "/v1/payments/{id}/refunds". As routers do, it also matches other case, and one slash at the
// end. A value type.
class PathPattern {
 public:
  // INVALID_ARGUMENT unless it begins with '/', and has segments of visible ASCII.
  static absl::StatusOr<PathPattern> Parse(std::string_view text);

  // `path` without a query.
  bool Matches(std::string_view path) const;
  // It matches every path that `other` does.
  bool Covers(const PathPattern& other) const { return Matches(other.Canonical()); }
  // The canonical form of the paths that both match; nullopt: there are none.
  std::optional<std::string> CommonWith(const PathPattern& other) const;
  // The form that all its spellings have in common: lower case, "{}" for each segment in braces.
  std::string Canonical() const;

 private:
  PathPattern() = default;

  // Lower case; "" stands for any.
  std::vector<std::string> segments_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_EXT_PROC_POLICY_PATH_PATTERN_H_

#ifndef IDEMPOTENCY_POSTGRES_CONNINFO_BUILDER_H_
#define IDEMPOTENCY_POSTGRES_CONNINFO_BUILDER_H_

#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace idempotency::internal {

// A connection string of libpq, from keywords and values: libpqxx takes one string, and a URL
// cannot also contain the defaults that it overrides. Of several values for one keyword the last
// counts. A value type.
class ConninfoBuilder {
 public:
  void Set(std::string_view keyword, std::string_view value);
  // In whole seconds, rounded up, and at least two: libpq's minimum.
  void SetSeconds(std::string_view keyword, absl::Duration duration);
  // All that a URL, or another connection string, sets. False if libpq cannot parse it.
  [[nodiscard]] bool SetAll(const std::string& given);

  const std::string& conninfo() const { return conninfo_; }

 private:
  std::string conninfo_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_POSTGRES_CONNINFO_BUILDER_H_

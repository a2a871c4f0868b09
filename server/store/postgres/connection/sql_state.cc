#include "server/store/postgres/connection/sql_state.h"

#include <algorithm>
#include <iterator>

namespace idempotency::internal {
namespace {

constexpr std::string_view kLabel = "SQLSTATE ";
constexpr std::size_t kStateSize = 5;

// Classes: a feature that is not supported, values of another type, a schema that is missing;
// names, syntax and privileges.
constexpr std::string_view kLastingClasses[] = {"0A", "22", "3F", "42"};

}  // namespace

std::string SqlStateOf(const absl::Status& failure) {
  const std::string_view message(failure.message().data(), failure.message().size());
  // The server's own text is before it.
  const std::size_t at = message.rfind(kLabel);
  if (at == std::string_view::npos) return "";
  return std::string(message.substr(at + kLabel.size(), kStateSize));
}

bool IsLasting(std::string_view sql_state) {
  return std::any_of(
      std::begin(kLastingClasses), std::end(kLastingClasses),
      [sql_state](std::string_view of) { return sql_state.substr(0, of.size()) == of; });
}

}  // namespace idempotency::internal

#include "postgres/conninfo_builder.h"

#include <libpq-fe.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "absl/strings/str_cat.h"

namespace idempotency::internal {

void ConninfoBuilder::Set(std::string_view keyword, std::string_view value) {
  conninfo_.append(keyword).append("='");
  for (const char c : value) {
    if (c == '\'' || c == '\\') conninfo_.push_back('\\');
    conninfo_.push_back(c);
  }
  conninfo_.append("' ");
}

void ConninfoBuilder::SetSeconds(std::string_view keyword, absl::Duration duration) {
  const std::int64_t seconds = absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1)));
  Set(keyword, absl::StrCat(std::max<std::int64_t>(seconds, 2)));
}

bool ConninfoBuilder::SetAll(const std::string& given) {
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(
      PQconninfoParse(given.c_str(), /*errmsg=*/nullptr), &PQconninfoFree);
  if (parsed == nullptr) return false;
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) Set(option->keyword, option->val);
  }
  return true;
}

}  // namespace idempotency::internal

#include "interceptors/server/request/key_check.h"

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

absl::Status CheckKey(const KeyValidator& validator, std::string_view key) {
  const absl::Status verdict = validator(key);
  if (verdict.ok()) return verdict;
  return MakeError(Reason::kKeyInvalid, absl::StrCat("the key is refused: ", verdict.message()));
}

}  // namespace idempotency::internal

#include "server/process/command_line/flag_values.h"

#include "absl/strings/str_cat.h"

namespace idempotency::internal {

absl::StatusOr<StoreAddress> ParseStore(absl::string_view text) {
  if (text.empty()) {
    return absl::InvalidArgumentError(
        "--store is missing; write for example --store=sqlite:/var/lib/idempotency/records.db");
  }
  absl::StatusOr<StoreAddress> store = StoreAddress::Parse(text);
  if (!store.ok()) return AboutFlag("store", store.status());
  return store;
}

absl::StatusOr<LogLevel> ParseLogLevel(absl::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warn") return LogLevel::kWarn;
  if (text == "error") return LogLevel::kError;
  return AboutFlag("log_level", absl::InvalidArgumentError("must be debug, info, warn or error"));
}

absl::Status AboutFlag(absl::string_view flag, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", status.message()));
}

}  // namespace idempotency::internal

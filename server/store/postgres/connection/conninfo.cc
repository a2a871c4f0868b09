#include "server/store/postgres/connection/conninfo.h"

#include <libpq-fe.h>

#include <memory>
#include <optional>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "postgres/conninfo_builder.h"

namespace idempotency::internal {
namespace {

using ParsedConninfo = std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)>;

// The value of a keyword in the URL; where the URL does not set it, the environment's or libpq's
// default.
std::optional<std::string> ValueOf(const std::string& url, std::string_view keyword) {
  for (const bool given : {true, false}) {
    const ParsedConninfo options(
        given ? PQconninfoParse(url.c_str(), /*errmsg=*/nullptr) : PQconndefaults(),
        &PQconninfoFree);
    if (options == nullptr) return std::nullopt;
    for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
      if (option->keyword == keyword && option->val != nullptr) return option->val;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::string> PostgresConninfo(const PostgresOptions& options) {
  const absl::Duration reply_timeout = options.statement_timeout + options.reply_grace;
  ConninfoBuilder builder;
  builder.SetSeconds("connect_timeout", options.connect_timeout);
  builder.Set("target_session_attrs", options.read_only ? "any" : "read-write");
  builder.Set("application_name", options.application_name);
  builder.SetSeconds("keepalives_idle", kPostgresKeepaliveIdle);
  builder.SetSeconds("keepalives_interval", kPostgresKeepaliveInterval);
  builder.Set("keepalives_count", absl::StrCat(kPostgresKeepaliveCount));
  builder.Set("tcp_user_timeout", absl::StrCat(absl::ToInt64Milliseconds(reply_timeout)));
  if (!options.password.empty()) builder.Set("password", options.password);
  if (!builder.SetAll(options.url)) {
    return absl::InvalidArgumentError("postgres url: cannot be parsed");
  }
  builder.Set("client_encoding", "UTF8");
  return builder.conninfo();
}

bool VerifiesServer(const std::string& url) { return ValueOf(url, "sslmode") == "verify-full"; }

bool NamesSeveralServers(const std::string& url) {
  for (const char* const keyword : {"host", "hostaddr"}) {
    if (absl::StrContains(ValueOf(url, keyword).value_or(""), ',')) return true;
  }
  return false;
}

std::string SchemaInUrl(const std::string& url) {
  const ParsedConninfo given(PQconninfoParse(url.c_str(), /*errmsg=*/nullptr), &PQconninfoFree);
  if (given == nullptr) return "";
  std::string schema;
  for (const PQconninfoOption* option = given.get(); option->keyword != nullptr; ++option) {
    if (option->val == nullptr || std::string_view(option->keyword) != "options") continue;
    // "-c name=value", "-cname=value" or "--name=value"; the last one counts.
    for (absl::string_view word : absl::StrSplit(option->val, ' ', absl::SkipEmpty())) {
      if (!absl::ConsumePrefix(&word, "--")) absl::ConsumePrefix(&word, "-c");
      if (absl::ConsumePrefix(&word, "search_path=") ||
          absl::ConsumePrefix(&word, "search-path=")) {
        schema = std::string(word);
      }
    }
  }
  return schema;
}

}  // namespace idempotency::internal

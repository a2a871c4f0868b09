#include "server/store/postgres/connection/conninfo.h"

#include <libpq-fe.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace idempotency::internal {
namespace {

void Append(std::string_view keyword, std::string_view value, std::string& conninfo) {
  conninfo.append(keyword).append("='");
  for (const char c : value) {
    if (c == '\'' || c == '\\') conninfo.push_back('\\');
    conninfo.push_back(c);
  }
  conninfo.append("' ");
}

std::string Seconds(absl::Duration duration) {
  return absl::StrCat(
      std::max<std::int64_t>(absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1))), 2));
}

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
  // libpqxx takes one string, and one string cannot contain both a URL and
  // defaults that the URL may override.
  const ParsedConninfo given(PQconninfoParse(options.url.c_str(), /*errmsg=*/nullptr),
                             &PQconninfoFree);
  if (given == nullptr) return absl::InvalidArgumentError("postgres url: cannot be parsed");
  const absl::Duration reply_timeout = options.statement_timeout + options.reply_grace;
  // Of several values for one keyword the last counts.
  std::string conninfo;
  Append("connect_timeout", Seconds(options.connect_timeout), conninfo);
  Append("target_session_attrs", options.read_only ? "any" : "read-write", conninfo);
  Append("application_name", options.application_name, conninfo);
  Append("keepalives_idle", Seconds(kPostgresKeepaliveIdle), conninfo);
  Append("keepalives_interval", Seconds(kPostgresKeepaliveInterval), conninfo);
  Append("keepalives_count", absl::StrCat(kPostgresKeepaliveCount), conninfo);
  Append("tcp_user_timeout", absl::StrCat(absl::ToInt64Milliseconds(reply_timeout)), conninfo);
  if (!options.password.empty()) Append("password", options.password, conninfo);
  for (const PQconninfoOption* option = given.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) Append(option->keyword, option->val, conninfo);
  }
  Append("client_encoding", "UTF8", conninfo);
  return conninfo;
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

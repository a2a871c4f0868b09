#include "server/service/store_address.h"

#include <libpq-fe.h>

#include <map>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "server/store/redis/options.h"

namespace idempotency::internal {
namespace {

StoreAddress AddressOf(StoreAddress::Kind kind, absl::string_view location) {
  StoreAddress address;
  address.kind = kind;
  address.location = std::string(location);
  return address;
}

constexpr absl::string_view kSqlitePrefix = "sqlite:";

absl::StatusOr<StoreAddress> ParseSqlite(absl::string_view path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "sqlite: has no path; write for example sqlite:/var/lib/idempotency/records.db");
  }
  // SQLite's own names for databases that end with the process.
  if (path == ":memory:" || absl::StartsWith(path, "file:")) {
    return absl::InvalidArgumentError(
        "sqlite: needs the path of a file that outlives the process, for example "
        "sqlite:/var/lib/idempotency/records.db");
  }
  return AddressOf(StoreAddress::Kind::kSqlite, path);
}

// libpq's options of a URI; nullopt if it cannot parse it.
std::optional<std::map<std::string, std::string>> ConnectionOptions(const std::string& uri) {
  char* error = nullptr;
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> options(
      PQconninfoParse(uri.c_str(), &error), &PQconninfoFree);
  // libpq's message quotes the URI, and with it perhaps a password.
  if (error != nullptr) PQfreemem(error);
  if (options == nullptr) return std::nullopt;
  std::map<std::string, std::string> values;
  for (const PQconninfoOption* option = options.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) values.emplace(option->keyword, option->val);
  }
  return values;
}

// libpq reads ports only when it connects, and then a wrong one would look like
// an unavailable server.
bool HasPorts(const std::map<std::string, std::string>& options) {
  const auto ports = options.find("port");
  if (ports == options.end()) return true;
  for (const absl::string_view text : absl::StrSplit(ports->second, ',')) {
    int port = 0;
    if (!text.empty() && (!absl::SimpleAtoi(text, &port) || port < 1 || port > 65535)) return false;
  }
  return true;
}

absl::StatusOr<StoreAddress> ParsePostgres(absl::string_view uri) {
  StoreAddress address = AddressOf(StoreAddress::Kind::kPostgres, uri);
  const auto options = ConnectionOptions(address.location);
  if (!options.has_value() || !HasPorts(*options)) {
    return absl::InvalidArgumentError(
        "the Postgres URI cannot be parsed; write postgresql://USER@HOST:PORT/DATABASE?NAME=VALUE, "
        "with special characters as %XX, and the password in PGPASSWORD or a PGPASSFILE");
  }
  return address;
}

absl::StatusOr<StoreAddress> ParseRedis(absl::string_view url) {
  const absl::StatusOr<RedisOptions> options = ParseRedisUrl(url);
  if (!options.ok()) return options.status();
  return AddressOf(StoreAddress::Kind::kRedis, url);
}

}  // namespace

absl::StatusOr<StoreAddress> StoreAddress::Parse(absl::string_view text) {
  if (absl::StartsWith(text, kSqlitePrefix)) {
    return ParseSqlite(absl::StripPrefix(text, kSqlitePrefix));
  }
  if (absl::StartsWith(text, "postgresql://") || absl::StartsWith(text, "postgres://")) {
    return ParsePostgres(text);
  }
  if (IsRedisUrl(text)) return ParseRedis(text);
  if (absl::StartsWith(text, "memory:")) {
    return absl::InvalidArgumentError(
        "a store in memory is not supported: a restart would lose every record and run operations "
        "again; use sqlite:PATH");
  }
  return absl::InvalidArgumentError(
      "the store must be sqlite:PATH or postgresql://... or redis://...");
}

std::string StoreAddress::Display() const {
  if (kind == Kind::kSqlite) return absl::StrCat(kSqlitePrefix, location);
  if (kind == Kind::kRedis) {
    const absl::StatusOr<RedisOptions> redis = ParseRedisUrl(location);
    return redis.ok() ? DisplayRedis(*redis) : "redis://";
  }
  std::map<std::string, std::string> options =
      ConnectionOptions(location).value_or(std::map<std::string, std::string>());
  std::string text = absl::StrCat("postgresql://", options["host"]);
  if (!options["port"].empty()) absl::StrAppend(&text, ":", options["port"]);
  return absl::StrCat(text, "/", options["dbname"]);
}

}  // namespace idempotency::internal

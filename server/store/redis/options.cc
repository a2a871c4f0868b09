#include "server/store/redis/options.h"

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace idempotency::internal {
namespace {

constexpr int kPort = 6379;
constexpr int kSentinelPort = 26379;
constexpr std::size_t kMaxPrefixBytes = 64;
constexpr std::size_t kMaxAddresses = 64;
constexpr std::size_t kMaxSecretBytes = 4096;

struct Scheme {
  absl::string_view text;
  RedisOptions::Mode mode;
  bool tls;
};
constexpr Scheme kSchemes[] = {
    {"redis://", RedisOptions::Mode::kSingle, false},
    {"rediss://", RedisOptions::Mode::kSingle, true},
    {"redis+sentinel://", RedisOptions::Mode::kSentinel, false},
    {"rediss+sentinel://", RedisOptions::Mode::kSentinel, true},
    {"redis+cluster://", RedisOptions::Mode::kCluster, false},
    {"rediss+cluster://", RedisOptions::Mode::kCluster, true},
};

const Scheme* SchemeOf(absl::string_view text) {
  for (const Scheme& scheme : kSchemes) {
    if (absl::StartsWith(text, scheme.text)) return &scheme;
  }
  return nullptr;
}

absl::Status Wrong(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("the Redis URL: ", what));
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// %XX; nullopt for a broken one, and for control characters.
std::optional<std::string> Decoded(absl::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = HexDigit(text[i + 1]);
      const int low = HexDigit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    }
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
    out.push_back(c);
  }
  return out;
}

using Setter = std::function<bool(RedisOptions&, const std::string&)>;

Setter Text(std::string RedisOptions::*field) {
  return [field](RedisOptions& options, const std::string& value) {
    options.*field = value;
    return !value.empty();
  };
}

Setter Duration(absl::Duration RedisOptions::*field) {
  return [field](RedisOptions& options, const std::string& value) {
    return absl::ParseDuration(value, &(options.*field));
  };
}

Setter SecretFile(RedisSecret RedisOptions::*field) {
  return [field](RedisOptions& options, const std::string& value) {
    (options.*field).file = value;
    return !value.empty();
  };
}

const std::map<std::string, Setter>& Parameters() {
  static const auto* const parameters = new std::map<std::string, Setter>{
      {"master", Text(&RedisOptions::master)},
      {"prefix", Text(&RedisOptions::prefix)},
      {"password_file", SecretFile(&RedisOptions::password)},
      {"sentinel_password_file", SecretFile(&RedisOptions::sentinel_password)},
      {"tls_ca", Text(&RedisOptions::tls_ca)},
      {"tls_cert", Text(&RedisOptions::tls_certificate)},
      {"tls_key", Text(&RedisOptions::tls_key)},
      {"connect_timeout", Duration(&RedisOptions::connect_timeout)},
      {"command_timeout", Duration(&RedisOptions::command_timeout)},
      {"wait_timeout", Duration(&RedisOptions::wait_timeout)},
      {"wait_replicas",
       [](RedisOptions& options, const std::string& value) {
         return absl::SimpleAtoi(value, &options.wait_replicas);
       }},
      {"wait_aof",
       [](RedisOptions& options, const std::string& value) {
         options.wait_aof = value == "1";
         return value == "0" || value == "1";
       }},
  };
  return *parameters;
}

absl::Status ReadParameters(absl::string_view text, RedisOptions& options) {
  if (text.empty()) return absl::OkStatus();
  for (const absl::string_view pair : absl::StrSplit(text, '&')) {
    const std::pair<std::string, std::string> split = absl::StrSplit(pair, absl::MaxSplits('=', 1));
    const auto parameter = Parameters().find(split.first);
    if (parameter == Parameters().end()) {
      return Wrong("has an unknown parameter; docs/redis.md lists the parameters");
    }
    const std::optional<std::string> value = Decoded(split.second);
    if (!value || !parameter->second(options, *value)) {
      return Wrong(absl::StrCat("the value of ", split.first, " cannot be read"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadUser(absl::string_view text, RedisOptions& options) {
  if (absl::StrContains(text, ':')) {
    return Wrong(
        "must not have a password: other users of the machine can read command lines; set "
        "REDIS_PASSWORD, or ?password_file=PATH");
  }
  const std::optional<std::string> user = Decoded(text);
  if (!user || user->empty()) return Wrong("the user before @ cannot be read");
  options.user = *user;
  return absl::OkStatus();
}

absl::Status ReadHosts(absl::string_view text, RedisOptions& options) {
  const int port = options.mode == RedisOptions::Mode::kSentinel ? kSentinelPort : kPort;
  for (const absl::string_view host : absl::StrSplit(text, ',')) {
    absl::StatusOr<RedisAddress> address = ParseRedisAddress(host, port);
    if (!address.ok()) return Wrong("must name HOST or HOST:PORT, IPv6 addresses in brackets");
    options.addresses.push_back(*std::move(address));
  }
  return absl::OkStatus();
}

absl::string_view ModeName(RedisOptions::Mode mode, bool tls) {
  for (const Scheme& scheme : kSchemes) {
    if (scheme.mode == mode && scheme.tls == tls) return scheme.text;
  }
  return "";
}

bool IsPlainPrefix(absl::string_view prefix) {
  if (prefix.empty() || prefix.size() > kMaxPrefixBytes) return false;
  for (const char c : prefix) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-' || c == ':';
    if (!plain) return false;
  }
  return true;
}

absl::Status ValidateMode(const RedisOptions& options) {
  using Mode = RedisOptions::Mode;
  if (options.addresses.empty() || options.addresses.size() > kMaxAddresses) {
    return absl::InvalidArgumentError("redis addresses: between 1 and 64");
  }
  if (options.mode == Mode::kSingle && options.addresses.size() != 1) {
    return absl::InvalidArgumentError(
        "redis:// names one server; use redis+sentinel:// or redis+cluster:// for several");
  }
  if ((options.mode == Mode::kSentinel) == options.master.empty()) {
    return absl::InvalidArgumentError(
        "redis+sentinel:// needs ?master=NAME, the name that the Sentinels have for the master; "
        "no other scheme takes it");
  }
  if (options.database < 0 || (options.mode == Mode::kCluster && options.database != 0)) {
    return absl::InvalidArgumentError("redis database: 0 or more, and 0 in a Cluster");
  }
  return absl::OkStatus();
}

absl::Status ValidateTls(const RedisOptions& options) {
  if (options.tls_certificate.empty() != options.tls_key.empty()) {
    return absl::InvalidArgumentError("redis tls_cert and tls_key: set both or neither");
  }
  if (!options.tls && !(options.tls_ca.empty() && options.tls_certificate.empty())) {
    return absl::InvalidArgumentError("redis tls_ca, tls_cert and tls_key need rediss://");
  }
  return absl::OkStatus();
}

}  // namespace

std::string RedisAddress::ToString() const {
  return absl::StrContains(host, ':') ? absl::StrCat("[", host, "]:", port)
                                      : absl::StrCat(host, ":", port);
}

absl::StatusOr<RedisAddress> ParseRedisAddress(absl::string_view text, int default_port) {
  RedisAddress address{"", default_port};
  absl::string_view port;
  if (absl::ConsumePrefix(&text, "[")) {
    const std::size_t end = text.find(']');
    if (end == absl::string_view::npos) return absl::InvalidArgumentError("address");
    address.host = std::string(text.substr(0, end));
    port = text.substr(end + 1);
  } else {
    // A server of a Cluster writes IPv6 addresses without brackets.
    const std::size_t colon = text.rfind(':');
    address.host = std::string(text.substr(0, colon));
    if (colon != absl::string_view::npos) port = text.substr(colon);
  }
  if (!port.empty() &&
      (!absl::ConsumePrefix(&port, ":") || !absl::SimpleAtoi(port, &address.port))) {
    return absl::InvalidArgumentError("address");
  }
  const bool odd = address.host.find_first_of("@/?#% \t\r\n") != std::string::npos;
  if (address.host.empty() || odd || address.port < 1 || address.port > 65535) {
    return absl::InvalidArgumentError("address");
  }
  return address;
}

absl::StatusOr<std::string> RedisSecret::Read() const {
  if (file.empty()) {
    const char* const value = variable.empty() ? nullptr : std::getenv(variable.c_str());
    return std::string(value == nullptr ? "" : value);
  }
  std::ifstream in(file, std::ios::binary);
  std::string secret(kMaxSecretBytes + 1, '\0');
  in.read(secret.data(), static_cast<std::streamsize>(secret.size()));
  secret.resize(static_cast<std::size_t>(in.gcount()));
  while (absl::EndsWith(secret, "\n") || absl::EndsWith(secret, "\r")) secret.pop_back();
  if (secret.empty() || secret.size() > kMaxSecretBytes) {
    return absl::UnavailableError(absl::StrCat("the password file ", file,
                                               " cannot be read, or is empty or longer than ",
                                               kMaxSecretBytes, " bytes"));
  }
  return secret;
}

absl::Status ValidateRedisOptions(const RedisOptions& options) {
  if (absl::Status mode = ValidateMode(options); !mode.ok()) return mode;
  if (absl::Status tls = ValidateTls(options); !tls.ok()) return tls;
  if (!IsPlainPrefix(options.prefix)) {
    return absl::InvalidArgumentError(
        "redis prefix: 1 to 64 letters, digits and . _ - : (braces would put every record into "
        "one slot of a Cluster)");
  }
  if (options.connections < 1 || options.connections > 1000) {
    return absl::InvalidArgumentError("redis connections: must be between 1 and 1000");
  }
  if (options.wait_replicas < 0 || options.wait_replicas > 16) {
    return absl::InvalidArgumentError("redis wait_replicas: must be between 0 and 16");
  }
  for (const absl::Duration timeout :
       {options.connect_timeout, options.command_timeout, options.acquire_timeout,
        options.min_backoff, options.max_backoff, options.wait_timeout}) {
    if (timeout < absl::Milliseconds(1) || timeout > absl::Minutes(1)) {
      return absl::InvalidArgumentError("redis timeouts: must be between 1 ms and 1 min");
    }
  }
  return absl::OkStatus();
}

bool IsRedisUrl(absl::string_view text) { return SchemeOf(text) != nullptr; }

absl::StatusOr<RedisOptions> ParseRedisUrl(absl::string_view url) {
  const Scheme* const scheme = SchemeOf(url);
  if (scheme == nullptr) return Wrong("begins with no scheme of Redis");
  RedisOptions options;
  options.mode = scheme->mode;
  options.tls = scheme->tls;
  url.remove_prefix(scheme->text.size());
  const std::pair<absl::string_view, absl::string_view> query =
      absl::StrSplit(url, absl::MaxSplits('?', 1));
  const std::pair<absl::string_view, absl::string_view> path =
      absl::StrSplit(query.first, absl::MaxSplits('/', 1));
  absl::string_view hosts = path.first;
  // Before the last @: a password with one must not become a part of the host's name.
  if (const std::size_t at = hosts.rfind('@'); at != absl::string_view::npos) {
    if (absl::Status user = ReadUser(hosts.substr(0, at), options); !user.ok()) return user;
    hosts.remove_prefix(at + 1);
  }
  if (absl::Status read = ReadHosts(hosts, options); !read.ok()) return read;
  if (!path.second.empty() && !absl::SimpleAtoi(path.second, &options.database)) {
    return Wrong("the database after / must be a number");
  }
  if (absl::Status read = ReadParameters(query.second, options); !read.ok()) return read;
  if (absl::Status valid = ValidateRedisOptions(options); !valid.ok()) return valid;
  return options;
}

std::string DisplayRedis(const RedisOptions& options) {
  std::string text = absl::StrCat(
      ModeName(options.mode, options.tls),
      absl::StrJoin(options.addresses, ",", [](std::string* out, const RedisAddress& address) {
        absl::StrAppend(out, address.ToString());
      }));
  if (options.database != 0) absl::StrAppend(&text, "/", options.database);
  return text;
}

}  // namespace idempotency::internal

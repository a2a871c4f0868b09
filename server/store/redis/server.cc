#include "server/store/redis/server.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/absl_view.h"

namespace idempotency::internal {
namespace {

constexpr int kOldestMajor = 6;

void ReadVersion(absl::string_view text, RedisServer& server) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '.');
  if (!absl::SimpleAtoi(parts[0], &server.major)) server.major = 0;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[1], &server.minor)) server.minor = 0;
}

absl::Status Refused(absl::string_view what) { return absl::FailedPreconditionError(what); }

}  // namespace

RedisServer ParseRedisInfo(std::string_view info) {
  RedisServer server;
  for (const absl::string_view line : absl::StrSplit(AbslView(info), "\r\n")) {
    const std::pair<absl::string_view, absl::string_view> entry =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    if (entry.first == "redis_version") ReadVersion(entry.second, server);
    if (entry.first == "role") server.is_master = entry.second == "master";
    if (entry.first == "cluster_enabled") server.is_cluster = entry.second == "1";
    if (entry.first == "loading") server.loading = entry.second == "1";
    if (entry.first == "aof_enabled") server.appends = entry.second == "1";
    if (entry.first == "run_id") server.run_id = std::string(entry.second);
    if (entry.first == "maxmemory_policy") server.maxmemory_policy = std::string(entry.second);
  }
  return server;
}

absl::Status CheckRedisServer(const RedisServer& server, const RedisOptions& options) {
  if (server.major == 0) return absl::UnavailableError("INFO has no version");
  if (server.major < kOldestMajor) {
    return Refused(absl::StrCat("Redis ", server.major, ".", server.minor,
                                " is too old: 6.0 or newer is needed"));
  }
  if (options.wait_aof && std::make_pair(server.major, server.minor) < std::make_pair(7, 2)) {
    return Refused("wait_aof=1 needs WAITAOF, which Redis has from 7.2 on: remove it, or upgrade");
  }
  if (server.loading) return absl::UnavailableError("it is reading its data");
  if (server.maxmemory_policy != "noeviction") {
    return Refused(absl::StrCat("maxmemory-policy is ", server.maxmemory_policy,
                                ": Redis would drop records when its memory is full, and their "
                                "operations would run again; set it to noeviction"));
  }
  const bool in_cluster = options.mode == RedisOptions::Mode::kCluster;
  if (server.is_cluster != in_cluster) {
    return Refused(server.is_cluster ? "it is a node of a Cluster: use redis+cluster://"
                                     : "it is not a node of a Cluster: use redis:// or "
                                       "redis+sentinel://");
  }
  if (!server.is_master) {
    return absl::UnavailableError("it is a replica and accepts no writes; name its master");
  }
  if (options.wait_aof && !server.appends) {
    return Refused("wait_aof=1 needs the append-only file: set appendonly to yes");
  }
  return absl::OkStatus();
}

std::vector<std::string> RedisDurabilityWarnings(const RedisServer& server,
                                                 const RedisFsync& fsync) {
  std::vector<std::string> warnings;
  if (!server.appends) {
    warnings.emplace_back(
        "appendonly is off: completions are acknowledged before they are durable. A restart of "
        "Redis loses those since its last snapshot, and their operations run again. Set "
        "appendonly to yes and appendfsync to always");
  } else if (fsync.appendfsync.empty() || fsync.none_on_rewrite.empty()) {
    warnings.emplace_back(
        "Redis does not report its appendfsync and no-appendfsync-on-rewrite (CONFIG GET is not "
        "permitted). Unless they are always and no, completions are acknowledged before they are "
        "durable: a crash of the machine loses those of the last second or more");
  } else if (fsync.appendfsync != "always") {
    warnings.push_back(absl::StrCat(
        "appendfsync is ", fsync.appendfsync,
        ": completions are acknowledged before they are durable. A crash of the machine loses "
        "those of the last ",
        fsync.appendfsync == "everysec" ? "second or two" : "half minute or so",
        ", and their operations run again. Set it to always"));
  } else if (fsync.none_on_rewrite != "no") {
    warnings.emplace_back(
        "no-appendfsync-on-rewrite is yes: while Redis saves or rewrites its files, completions "
        "are "
        "acknowledged before they are durable. A crash of the machine loses those, up to half a "
        "minute or so, and their operations run again. Set it to no");
  }
  return warnings;
}

}  // namespace idempotency::internal

#include "server/store/redis/markers.h"

#include <spdlog/spdlog.h>

#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/redis/calls.h"
#include "server/store/redis/reply.h"

namespace idempotency::internal {
namespace {

RedisMarkers MarkersOf(const RedisMarkerValues& values) {
  RedisMarkers found;
  // Of the first one, while the others are written.
  std::string prepared;
  int there = 0;
  std::map<std::string, int> counts;
  for (const absl::StatusOr<std::string>& value : values) {
    if (!value.ok()) {
      found.unread.Update(value.status());
      continue;
    }
    absl::string_view identity = *value;
    if (absl::ConsumePrefix(&identity, RedisMarkers::kPreparing)) {
      prepared = std::string(identity);
      identity = "";
    }
    if (identity.empty()) {
      found.faults.missing += 1;
      continue;
    }
    ++there;
    const int count = ++counts[std::string(identity)];
    if (count > counts[found.identity]) found.identity = std::string(identity);
  }
  found.faults.differing = there - counts[found.identity];
  if (!prepared.empty() && (found.identity.empty() || found.identity == prepared)) {
    found.faults.preparing = true;
    found.identity = prepared;
  }
  return found;
}

absl::StatusOr<std::string> RunOne(RedisConnections& connections, const RedisCall& call) {
  auto replies = connections.Run({&call, 1});
  if (!replies[0].ok()) return replies[0].status();
  return std::string(replies[0]->value().text());
}

absl::Status WriteAll(RedisConnections& connections, absl::Span<const std::string> keys,
                      const std::string& value) {
  std::vector<RedisCall> writes;
  for (const std::string& key : keys) writes.push_back(RedisCalls::Plain({"SET", key, value}));
  for (const absl::StatusOr<RedisReply>& reply : connections.Run(writes)) {
    if (!reply.ok()) return reply.status();
  }
  return absl::OkStatus();
}

// One process decides on the value that all take.
absl::StatusOr<std::string> DecideIdentity(RedisConnections& connections,
                                           const std::string& first) {
  const std::string wanted =
      absl::StrCat(RedisMarkers::kPreparing, RedisIdentity::kLayout, Uuid::Random().ToString());
  const auto set = RunOne(connections, RedisCalls::Plain({"SET", first, wanted, "NX"}));
  if (!set.ok()) return set.status();
  const auto decided = RunOne(connections, RedisCalls::Plain({"GET", first}));
  if (!decided.ok()) return decided.status();
  // Another process may have written all of them by now.
  return std::string(absl::StripPrefix(*decided, RedisMarkers::kPreparing));
}

}  // namespace

RedisMarkers LookAtRedisMarkers(absl::FunctionRef<RedisMarkerValues()> read) {
  RedisMarkers found = MarkersOf(read());
  const bool all_missing = found.identity.empty();
  if (found.faults.count() == 0 || found.faults.preparing || all_missing) return found;
  // A preparation that was under way at the first look is over by now, or the first marker shows
  // it.
  return MarkersOf(read());
}

RedisMarkers ReadRedisMarkers(RedisConnections& connections, const RedisIdentity& identity) {
  std::vector<RedisCall> reads;
  for (const std::string& key : identity.keys()) reads.push_back(RedisCalls::Plain({"GET", key}));
  return LookAtRedisMarkers([&] {
    RedisMarkerValues values;
    for (const absl::StatusOr<RedisReply>& reply : connections.Run(reads)) {
      if (reply.ok()) {
        values.emplace_back(std::string(reply->value().text()));
      } else {
        values.emplace_back(reply.status());
      }
    }
    return values;
  });
}

absl::StatusOr<std::string> WriteRedisMarkers(RedisConnections& connections,
                                              const RedisIdentity& identity,
                                              const RedisMarkers& found) {
  if (!found.identity.empty() && !found.faults.preparing) {
    spdlog::warn(
        "redis: {} of {} markers were missing, and {} had another value: a server lost records. "
        "Operations whose records are lost run again",
        found.faults.missing, RedisIdentity::kMarkers, found.faults.differing);
  }
  const auto keys = absl::MakeConstSpan(identity.keys());
  const absl::StatusOr<std::string> decided =
      found.identity.empty() ? DecideIdentity(connections, keys.front()) : found.identity;
  if (!decided.ok()) return decided.status();
  // The first one last: it shows that the others are there.
  for (const auto& part : {keys.subspan(1), keys.first(1)}) {
    if (absl::Status written = WriteAll(connections, part, *decided); !written.ok()) return written;
  }
  return decided;
}

absl::Status RefusedForMarkers(const RedisMarkers::Faults& faults, const RedisOptions& options) {
  if (faults.preparing) {
    return absl::UnavailableError(absl::StrCat(
        DisplayRedis(options), ": the preparation under ", options.prefix,
        " has not ended: another process writes the markers, or was stopped. If this does not "
        "change, run `idempotencyd migrate --store=redis://...` again"));
  }
  const bool all = faults.missing == RedisIdentity::kMarkers;
  const std::string of =
      absl::StrCat(" of ", RedisIdentity::kMarkers, " markers under ", options.prefix, " ");
  const std::string what =
      faults.missing > 0
          ? absl::StrCat(faults.missing, of,
                         "are missing: ", all ? "it is new, or lost its data" : "it lost records")
          : absl::StrCat(faults.differing, of,
                         "differ from the others: a server has older data, and lost records");
  return absl::FailedPreconditionError(absl::StrCat(
      DisplayRedis(options), ": ", what,
      ". Before the first start run `idempotencyd migrate --store=redis://...` once; a program "
      "that "
      "embeds the service may open it once with EmbeddedOptions::accept_empty. After a loss "
      "restore the data; or accept that operations whose records are lost may run again: set "
      "not_before in --config to the time now, and then run that command"));
}

}  // namespace idempotency::internal

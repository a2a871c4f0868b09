#include "server/store/redis/identity.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "server/store/redis/reply.h"
#include "server/store/redis/slots.h"

namespace idempotency::internal {

namespace {

// Numbers are tried in turn until each range of slots has a key.
std::vector<std::string> MarkersUnder(const std::string& prefix) {
  constexpr int kSlotsPerMarker = kRedisSlots / RedisIdentity::kMarkers;
  std::vector<std::string> keys(RedisIdentity::kMarkers);
  int left = RedisIdentity::kMarkers;
  for (int number = 0; left > 0; ++number) {
    std::string key = absl::StrCat(prefix, ":m:", number);
    std::string& place = keys[static_cast<std::size_t>(RedisSlotOf(key) / kSlotsPerMarker)];
    if (!place.empty()) continue;
    place = std::move(key);
    --left;
  }
  return keys;
}

// The slot moves just now: its marker is checked on the other server.
bool IsOfMovedSlot(std::string_view error) {
  const std::string_view code = RedisErrorCode(error);
  return code == "MOVED" || code == "ASK";
}

}  // namespace

RedisIdentity::RedisIdentity(const RedisOptions& options) : keys_(MarkersUnder(options.prefix)) {}

void RedisIdentity::Set(const std::string& value) {
  MutexLock lock(mutex_);
  value_ = value;
}

std::string RedisIdentity::value() const {
  MutexLock lock(mutex_);
  return value_;
}

absl::Status RedisIdentity::Check(RedisConnection& connection, RedisTopology& topology,
                                  const RedisOptions& options) const {
  const std::string expected = value();
  if (expected.empty()) return absl::OkStatus();
  int sent = 0;
  for (const std::string& key : keys_) {
    const absl::StatusOr<RedisAddress> owner = topology.ServerOf(RedisSlotOf(key));
    if (!owner.ok() || !(*owner == connection.address())) continue;
    connection.Send(RedisWire({"GET", key}));
    ++sent;
  }
  RedisConnection* const one = &connection;
  RedisConnection::Exchange({&one, 1}, std::chrono::steady_clock::now() +
                                           absl::ToChronoNanoseconds(options.connect_timeout));
  for (int i = 0; i < sent; ++i) {
    const std::optional<RedisReply> reply = connection.Take();
    if (!reply) return absl::UnavailableError("no answer");
    if (reply->value().IsError()) {
      if (IsOfMovedSlot(reply->value().text())) continue;
      return absl::UnavailableError(
          absl::StrCat(connection.address().ToString(),
                       ": a marker cannot be read: ", AbslView(reply->value().text())));
    }
    if (reply->value().text() == expected) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(connection.address().ToString(),
                     ": it has lost some or all records: it restarted without its data, or was "
                     "emptied. Restore them; or accept that operations whose records are lost "
                     "may run again: set not_before in --config to the time now, run `idempotencyd "
                     "migrate`, and restart idempotencyd"));
  }
  return absl::OkStatus();
}

std::string RedisIdentity::WaitWire(const RedisOptions& options) {
  const std::string replicas = absl::StrCat(options.wait_replicas);
  const std::string timeout = absl::StrCat(absl::ToInt64Milliseconds(options.wait_timeout));
  if (options.wait_aof) return RedisWire({"WAITAOF", "1", replicas, timeout});
  return RedisWire({"WAIT", replicas, timeout});
}

}  // namespace idempotency::internal

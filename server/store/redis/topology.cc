#include "server/store/redis/topology.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/store/redis/connection.h"

namespace idempotency::internal {
namespace {

// More servers than a Cluster is meant to have; further ones in an answer are ignored.
constexpr std::size_t kMaxServers = 1024;

absl::StatusOr<RedisReply> QueryServer(RedisConnection& connection, const std::string& wire,
                                       const RedisOptions& options) {
  connection.Send(wire);
  RedisConnection* const one = &connection;
  RedisConnection::Exchange({&one, 1}, std::chrono::steady_clock::now() +
                                           absl::ToChronoNanoseconds(options.connect_timeout));
  std::optional<RedisReply> reply = connection.Take();
  if (!reply) {
    return absl::UnavailableError(absl::StrCat(connection.address().ToString(), ": no answer"));
  }
  if (reply->value().IsError()) {
    return absl::UnavailableError(
        absl::StrCat(connection.address().ToString(), ": ", std::string(reply->value().text())));
  }
  return *std::move(reply);
}

}  // namespace

RedisTopology::Map RedisTopology::OfOne(const RedisAddress& server) {
  Map map;
  map.servers = {server};
  return map;
}

absl::StatusOr<RedisTopology::Map> RedisTopology::QuerySentinel(
    const RedisAddress& sentinel) const {
  auto connection = RedisConnection::OpenSentinel(sentinel, options_);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<RedisReply> reply =
      QueryServer(**connection, RedisWire({"SENTINEL", "master", options_.master}), options_);
  if (!reply.ok()) return reply.status();
  RedisAddress master;
  Map map;
  // Names and values in turns.
  for (std::size_t i = 0; i + 1 < reply->value().size(); i += 2) {
    const std::string_view name = reply->value()[i].text();
    const RedisValue value = reply->value()[i + 1];
    if (name == "ip") master.host = std::string(value.text());
    if (name == "port") master.port = static_cast<int>(value.integer());
    if (name == "config-epoch") map.epoch = value.integer();
  }
  if (master.host.empty() || master.port <= 0) {
    return absl::UnavailableError(
        absl::StrCat(sentinel.ToString(), ": does not know the master ", options_.master));
  }
  map.servers = {master};
  return map;
}

absl::StatusOr<RedisTopology::Map> RedisTopology::QuerySentinels(std::int64_t known_epoch,
                                                                 Ask ask) const {
  absl::StatusOr<Map> best = absl::UnavailableError("no Sentinel knows the master");
  for (const RedisAddress& sentinel : options_.addresses) {
    absl::StatusOr<Map> map = QuerySentinel(sentinel);
    if (!map.ok()) {
      if (!best.ok()) best = map.status();
      continue;
    }
    if (!best.ok() || map->epoch > best->epoch) best = *std::move(map);
    if (ask == Ask::kOne && best->epoch >= known_epoch) return best;
  }
  return best;
}

absl::StatusOr<RedisTopology::Map> RedisTopology::QueryNode(const RedisAddress& node) const {
  // Any node knows the slots, also a replica.
  auto connection = RedisConnection::OpenNode(node, options_);
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<RedisReply> reply =
      QueryServer(**connection, RedisWire({"CLUSTER", "SLOTS"}), options_);
  if (!reply.ok()) return reply.status();
  Map map;
  map.owners.fill(kNobody);
  for (std::size_t i = 0; i < reply->value().size(); ++i) {
    const RedisValue range = reply->value()[i];
    RedisAddress owner{std::string(range[2][0].text()), static_cast<int>(range[2][1].integer())};
    // A node that does not know its own address.
    if (owner.host.empty() || owner.host == "?") owner.host = node.host;
    auto at = std::find(map.servers.begin(), map.servers.end(), owner);
    if (at == map.servers.end()) {
      if (map.servers.size() == kMaxServers) continue;
      at = map.servers.insert(map.servers.end(), owner);
    }
    const auto index = static_cast<std::uint16_t>(at - map.servers.begin());
    const std::int64_t first = std::max<std::int64_t>(range[0].integer(), 0);
    const std::int64_t last = std::min<std::int64_t>(range[1].integer(), kRedisSlots - 1);
    for (std::int64_t slot = first; slot <= last; ++slot) {
      map.owners[static_cast<std::size_t>(slot)] = index;
    }
  }
  if (map.servers.empty()) {
    return absl::UnavailableError(absl::StrCat(node.ToString(), ": the Cluster has no slots"));
  }
  return map;
}

absl::StatusOr<std::shared_ptr<const RedisTopology::Map>> RedisTopology::Query(
    const std::vector<RedisAddress>& known, std::int64_t known_epoch, Ask ask) const {
  if (options_.mode == RedisOptions::Mode::kSingle) {
    return std::make_shared<const Map>(OfOne(options_.addresses.front()));
  }
  if (options_.mode == RedisOptions::Mode::kSentinel) {
    absl::StatusOr<Map> map = QuerySentinels(known_epoch, ask);
    if (!map.ok()) return map.status();
    return std::make_shared<const Map>(*std::move(map));
  }
  std::vector<RedisAddress> nodes = known;
  nodes.insert(nodes.end(), options_.addresses.begin(), options_.addresses.end());
  absl::Status failure = absl::UnavailableError("the Cluster has no nodes");
  for (const RedisAddress& node : nodes) {
    absl::StatusOr<Map> map = QueryNode(node);
    if (map.ok()) return std::make_shared<const Map>(*std::move(map));
    failure = map.status();
  }
  return failure;
}

absl::StatusOr<std::shared_ptr<const RedisTopology::Map>> RedisTopology::Current() {
  const auto fresh = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto now = std::chrono::steady_clock::now();
    const bool just_queried =
        queried_at_ && now < *queried_at_ + absl::ToChronoNanoseconds(kMinRefresh);
    return map_ != nullptr && (!suspect_ || just_queried);
  };
  {
    MutexLock lock(mutex_);
    if (fresh()) return map_;
  }
  MutexLock querying(querying_);
  std::vector<RedisAddress> known;
  std::int64_t known_epoch = 0;
  {
    MutexLock lock(mutex_);
    if (fresh()) return map_;
    if (map_ != nullptr) known_epoch = map_->epoch;
    // Not those that just failed.
    if (map_ != nullptr) known = map_->servers;
    known.erase(std::remove_if(known.begin(), known.end(),
                               [this](const RedisAddress& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                   mutex_) { return failures_.count(address) > 0; }),
                known.end());
    suspect_ = false;
  }
  absl::StatusOr<std::shared_ptr<const Map>> queried = Query(known, known_epoch, Ask::kOne);
  MutexLock lock(mutex_);
  queried_at_ = std::chrono::steady_clock::now();
  if (queried.ok()) {
    map_ = *queried;
    return queried;
  }
  suspect_ = true;
  if (log_.Admit()) {
    spdlog::warn("redis: the servers are not known: {}", std::string(queried.status().message()));
  }
  // The last known ones may be right.
  if (map_ != nullptr) return map_;
  return queried.status();
}

void RedisTopology::Refresh() {
  if (options_.mode != RedisOptions::Mode::kSentinel) return;
  MutexLock querying(querying_);
  absl::StatusOr<std::shared_ptr<const Map>> queried = Query({}, /*known_epoch=*/0, Ask::kAll);
  MutexLock lock(mutex_);
  queried_at_ = std::chrono::steady_clock::now();
  // While no Sentinel answers, the last known master may be right.
  if (queried.ok()) map_ = *std::move(queried);
}

absl::StatusOr<RedisAddress> RedisTopology::ServerOf(int slot) {
  const absl::StatusOr<std::shared_ptr<const Map>> map = Current();
  if (!map.ok()) return map.status();
  const std::uint16_t owner = (*map)->owners[static_cast<std::size_t>(slot)];
  if (owner >= (*map)->servers.size()) {
    Suspect();
    return absl::UnavailableError(absl::StrCat("slot ", slot, " has no server"));
  }
  return (*map)->servers[owner];
}

absl::StatusOr<std::vector<RedisAddress>> RedisTopology::Servers() {
  const absl::StatusOr<std::shared_ptr<const Map>> map = Current();
  if (!map.ok()) return map.status();
  return (*map)->servers;
}

void RedisTopology::Moved(int slot, const RedisAddress& to) {
  MutexLock lock(mutex_);
  // The others of a slot that moved have moved, most likely.
  suspect_ = true;
  if (map_ == nullptr) return;
  Map map = *map_;
  auto at = std::find(map.servers.begin(), map.servers.end(), to);
  if (at == map.servers.end()) {
    if (map.servers.size() == kMaxServers) return;
    at = map.servers.insert(map.servers.end(), to);
  }
  map.owners[static_cast<std::size_t>(slot)] = static_cast<std::uint16_t>(at - map.servers.begin());
  map_ = std::make_shared<const Map>(std::move(map));
}

void RedisTopology::Suspect() {
  MutexLock lock(mutex_);
  suspect_ = true;
}

bool RedisTopology::MayTry(const RedisAddress& address) {
  MutexLock lock(mutex_);
  const auto failure = failures_.find(address);
  if (failure == failures_.end()) return true;
  const auto now = std::chrono::steady_clock::now();
  if (now < failure->second.next_try) return false;
  // For the others; also if the caller is lost. To connect and to check the server.
  failure->second.next_try = now + 2 * absl::ToChronoNanoseconds(options_.connect_timeout);
  return true;
}

std::optional<RedisAddress> RedisTopology::NextFailed(const std::vector<RedisAddress>& servers) {
  MutexLock lock(mutex_);
  std::optional<RedisAddress> first;
  std::optional<RedisAddress> next;
  for (const auto& [address, failure] : failures_) {
    if (std::find(servers.begin(), servers.end(), address) == servers.end()) continue;
    if (!first) first = address;
    if (!next && tried_ && *tried_ < address) next = address;
  }
  tried_ = next ? next : first;
  return tried_;
}

void RedisTopology::Log(const RedisAddress& server, std::string_view what) {
  const std::optional<std::int64_t> left_out = log_.Admit();
  if (!left_out) return;
  spdlog::warn("redis: {}: {}{}", server.ToString(), what,
               *left_out == 0 ? "" : absl::StrCat(" (and ", *left_out, " more lines)"));
}

void RedisTopology::LogFailure(const absl::Status& failure) {
  const std::optional<std::int64_t> left_out = log_.Admit();
  if (left_out) spdlog::warn("redis: {}", std::string(failure.message()));
}

RedisTopology::Failure& RedisTopology::FailureOf(const RedisAddress& address) {
  suspect_ = true;
  if (failures_.size() >= kMaxServers && failures_.count(address) == 0) failures_.clear();
  return failures_.try_emplace(address, options_.min_backoff, options_.max_backoff).first->second;
}

void RedisTopology::NoteUnreached(const RedisAddress& address, const absl::Status& failure,
                                  absl::Duration took) {
  LogFailure(failure);
  MutexLock lock(mutex_);
  Failure& failed = FailureOf(address);
  const absl::Duration pause = std::max(failed.backoff.Next(), kPausePerAttempt * took);
  failed.next_try = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause);
}

void RedisTopology::NoteFailed(const RedisAddress& address, const absl::Status& failure) {
  LogFailure(failure);
  MutexLock lock(mutex_);
  Failure& failed = FailureOf(address);
  const absl::Duration pause = failed.backoff.Next();
  // A connection of before shows no more than the last attempt did.
  failed.next_try = std::max(failed.next_try,
                             std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause));
}

void RedisTopology::NoteReplica(const RedisAddress& address) {
  Log(address, "it became a replica");
  MutexLock lock(mutex_);
  demotions_.fetch_add(1);
  suspect_ = true;
  replica_ = address;
}

bool RedisTopology::IsReplica(const RedisAddress& address) {
  MutexLock lock(mutex_);
  return replica_ == address;
}

void RedisTopology::NoteReached(const RedisAddress& address) {
  MutexLock lock(mutex_);
  failures_.erase(address);
  if (replica_ == address) replica_.reset();
}

}  // namespace idempotency::internal

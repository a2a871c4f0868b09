#include "server/store/redis/topology.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "server/store/redis/connection.h"

namespace idempotency::internal {
namespace {

// More servers than a Cluster is meant to have; further ones in an answer are ignored.
constexpr std::size_t kMaxServers = 1024;

// The replies to `commands`, in order.
absl::StatusOr<std::vector<RedisReply>> QueryServer(RedisConnection& connection,
                                                    const std::vector<std::string>& commands,
                                                    const RedisOptions& options) {
  for (const std::string& command : commands) connection.Send(command);
  RedisConnection* const one = &connection;
  RedisConnection::Exchange({&one, 1}, std::chrono::steady_clock::now() +
                                           absl::ToChronoNanoseconds(options.connect_timeout));
  std::vector<RedisReply> replies;
  for (std::size_t i = 0; i < commands.size(); ++i) {
    std::optional<RedisReply> reply = connection.Take();
    if (!reply) {
      return absl::UnavailableError(absl::StrCat(connection.address().ToString(), ": no answer"));
    }
    if (reply->value().IsError()) {
      return absl::UnavailableError(
          absl::StrCat(connection.address().ToString(), ": ", std::string(reply->value().text())));
    }
    replies.push_back(*std::move(reply));
  }
  return replies;
}

// Of the answer to SENTINEL master: names and values in turns.
std::int64_t EpochOf(const RedisValue& master) {
  for (std::size_t i = 0; i + 1 < master.size(); i += 2) {
    if (master[i].text() == "config-epoch") return master[i + 1].integer();
  }
  return 0;
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
  // SENTINEL master has the address of the former one, beside the epoch of the next, until the
  // replicas follow that. In this order, so that an address is never older than its epoch.
  const auto replies =
      QueryServer(**connection,
                  {RedisWire({"SENTINEL", "master", options_.master}),
                   RedisWire({"SENTINEL", "get-master-addr-by-name", options_.master})},
                  options_);
  if (!replies.ok()) return replies.status();
  const RedisValue address = replies->back().value();
  const RedisAddress master{std::string(address[0].text()), static_cast<int>(address[1].integer())};
  if (master.host.empty() || master.port <= 0) {
    return absl::UnavailableError(
        absl::StrCat(sentinel.ToString(), ": does not know the master ", options_.master));
  }
  Map map;
  map.servers = {master};
  map.epoch = EpochOf(replies->front().value());
  return map;
}

bool RedisTopology::IsPaused(const RedisAddress& sentinel) {
  MutexLock lock(mutex_);
  const auto until = paused_.find(sentinel);
  return until != paused_.end() && std::chrono::steady_clock::now() < until->second;
}

void RedisTopology::NoteSentinel(const RedisAddress& sentinel, bool answered, absl::Duration took) {
  MutexLock lock(mutex_);
  if (answered) {
    paused_.erase(sentinel);
  } else {
    paused_[sentinel] =
        std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(kPausePerAttempt * took);
  }
}

absl::StatusOr<RedisTopology::Map> RedisTopology::QuerySentinels(std::int64_t known_epoch,
                                                                 Sentinels sentinels) {
  absl::StatusOr<Map> best = absl::UnavailableError("no Sentinel answers");
  std::vector<RedisAddress> paused;
  std::size_t answers = 0;
  const auto query = [&](const RedisAddress& sentinel) {
    const auto began = std::chrono::steady_clock::now();
    absl::StatusOr<Map> map = QuerySentinel(sentinel);
    NoteSentinel(sentinel, map.ok(), absl::FromChrono(std::chrono::steady_clock::now() - began));
    if (map.ok()) {
      ++answers;
      if (!best.ok() || map->epoch > best->epoch) best = *std::move(map);
    } else if (!best.ok()) {
      best = map.status();
    }
    return sentinels == Sentinels::kFirst && best.ok() && best->epoch >= known_epoch;
  };
  for (const RedisAddress& sentinel : options_.addresses) {
    if (IsPaused(sentinel)) {
      paused.push_back(sentinel);
    } else if (query(sentinel)) {
      return best;
    }
  }
  // Each costs RedisOptions::connect_timeout. A call does not wait for them: it has the last known
  // master.
  if (sentinels == Sentinels::kAll) {
    for (const RedisAddress& sentinel : paused) {
      if (best.ok()) break;
      query(sentinel);
    }
  }
  if (best.ok() && best->epoch < known_epoch && 2 * answers <= options_.addresses.size()) {
    return absl::UnavailableError(
        absl::StrCat("the Sentinels that answer are behind a failover: they name ",
                     best->servers.front().ToString()));
  }
  return best;
}

absl::StatusOr<RedisTopology::Map> RedisTopology::QueryNode(const RedisAddress& node) const {
  // Any node knows the slots, also a replica.
  auto connection = RedisConnection::OpenNode(node, options_);
  if (!connection.ok()) return connection.status();
  const auto replies = QueryServer(**connection, {RedisWire({"CLUSTER", "SLOTS"})}, options_);
  if (!replies.ok()) return replies.status();
  const RedisValue slots = replies->front().value();
  Map map;
  map.owners.fill(kNobody);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const RedisValue range = slots[i];
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
    const std::vector<RedisAddress>& known, std::int64_t known_epoch, Sentinels sentinels) {
  if (options_.mode == RedisOptions::Mode::kSingle) {
    return std::make_shared<const Map>(OfOne(options_.addresses.front()));
  }
  if (options_.mode == RedisOptions::Mode::kSentinel) {
    absl::StatusOr<Map> map = QuerySentinels(known_epoch, sentinels);
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

bool RedisTopology::IsFresh() const {
  const auto now = std::chrono::steady_clock::now();
  const bool just_queried =
      queried_at_ && now < *queried_at_ + absl::ToChronoNanoseconds(kMinRefresh);
  return map_ != nullptr && (!suspect_ || just_queried);
}

absl::StatusOr<std::shared_ptr<const RedisTopology::Map>> RedisTopology::Current() {
  {
    MutexLock lock(mutex_);
    if (IsFresh()) return map_;
  }
  const absl::Status queried = QueryUnlessFresh();
  // Without a mutex: a log that blocks does not stop the other callers.
  if (!queried.ok()) LogUnknownServers(queried);
  MutexLock lock(mutex_);
  // The last known ones may be right.
  if (map_ == nullptr) return queried;
  return map_;
}

absl::Status RedisTopology::QueryUnlessFresh() {
  MutexLock querying(querying_);
  std::vector<RedisAddress> known;
  std::int64_t known_epoch = 0;
  Sentinels sentinels = Sentinels::kAll;
  std::shared_ptr<const Map> before;
  {
    MutexLock lock(mutex_);
    if (IsFresh()) return absl::OkStatus();
    before = map_;
    if (map_ != nullptr) {
      known_epoch = map_->epoch;
      sentinels = Sentinels::kFirst;
      known = map_->servers;
    }
    // Not those that just failed.
    known.erase(std::remove_if(known.begin(), known.end(),
                               [this](const RedisAddress& address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(
                                   mutex_) { return failures_.count(address) > 0; }),
                known.end());
    suspect_ = false;
  }
  absl::StatusOr<std::shared_ptr<const Map>> queried = Query(known, known_epoch, sentinels);
  MutexLock lock(mutex_);
  queried_at_ = std::chrono::steady_clock::now();
  if (!queried.ok()) {
    suspect_ = true;
    return queried.status();
  }
  Adopt(before, *std::move(queried));
  return absl::OkStatus();
}

void RedisTopology::Refresh() {
  if (options_.mode != RedisOptions::Mode::kSentinel) return;
  std::shared_ptr<const Map> before;
  {
    MutexLock lock(mutex_);
    before = map_;
  }
  // Without querying_: a Sentinel that does not answer takes no time of calls.
  absl::StatusOr<std::shared_ptr<const Map>> queried =
      Query({}, before == nullptr ? 0 : before->epoch, Sentinels::kAll);
  // The last known master may be right.
  if (!queried.ok()) LogUnknownServers(queried.status());
  MutexLock lock(mutex_);
  queried_at_ = std::chrono::steady_clock::now();
  if (queried.ok()) Adopt(before, *std::move(queried));
}

void RedisTopology::Adopt(const std::shared_ptr<const Map>& before,
                          std::shared_ptr<const Map> queried) {
  if (map_ == before || queried->epoch >= map_->epoch) map_ = std::move(queried);
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

void RedisTopology::Log(const std::string& what) {
  const std::optional<std::int64_t> left_out = log_.Admit();
  if (!left_out) return;
  spdlog::warn("redis: {}{}", what,
               *left_out == 0 ? "" : absl::StrCat(" (and ", *left_out, " more lines)"));
}

void RedisTopology::Log(const RedisAddress& server, std::string_view what) {
  Log(absl::StrCat(server.ToString(), ": ", AbslView(what)));
}

void RedisTopology::LogUnknownServers(const absl::Status& failure) {
  Log(absl::StrCat("the servers are not known: ", failure.message()));
}

RedisTopology::Failure& RedisTopology::FailureOf(const RedisAddress& address) {
  suspect_ = true;
  if (failures_.size() >= kMaxServers && failures_.count(address) == 0) failures_.clear();
  return failures_.try_emplace(address, options_.min_backoff, options_.max_backoff).first->second;
}

void RedisTopology::NoteUnreached(const RedisAddress& address, const absl::Status& failure,
                                  absl::Duration took) {
  Log(std::string(failure.message()));
  MutexLock lock(mutex_);
  Failure& failed = FailureOf(address);
  const absl::Duration pause = std::max(failed.backoff.Next(), kPausePerAttempt * took);
  failed.next_try = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(pause);
}

void RedisTopology::NoteFailed(const RedisAddress& address, const absl::Status& failure) {
  Log(std::string(failure.message()));
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
}

void RedisTopology::NoteLost(const RedisAddress& address, const absl::Status& failure) {
  {
    MutexLock lock(mutex_);
    if (lost_.size() >= kMaxServers || !lost_.insert(address).second) return;
  }
  spdlog::error("redis: {}", std::string(failure.message()));
}

std::int64_t RedisTopology::lost_servers() {
  MutexLock lock(mutex_);
  if (map_ == nullptr) return 0;
  // One that is replaced is no longer reached.
  for (auto at = lost_.begin(); at != lost_.end();) {
    const auto& servers = map_->servers;
    at = std::find(servers.begin(), servers.end(), *at) == servers.end() ? lost_.erase(at)
                                                                         : std::next(at);
  }
  return static_cast<std::int64_t>(lost_.size());
}

bool RedisTopology::NoteRun(const RedisAddress& address, const std::string& run) {
  MutexLock lock(mutex_);
  const auto noted = runs_.find(address);
  if (noted != runs_.end() && noted->second == run) return false;
  if (runs_.size() >= kMaxServers) runs_.clear();
  runs_[address] = run;
  return true;
}

void RedisTopology::NoteReached(const RedisAddress& address) {
  MutexLock lock(mutex_);
  failures_.erase(address);
  lost_.erase(address);
}

}  // namespace idempotency::internal

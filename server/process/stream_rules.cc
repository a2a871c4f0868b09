#include "server/process/stream_rules.h"

#include <algorithm>
#include <utility>

namespace idempotency::internal {
namespace {

// Streams end here a little later than the client may take them to have ended.
constexpr std::int64_t kOpenFactor = 2;
// How often in a second a client that keeps to the limit would have to cancel all that it has.
constexpr double kFailedPerSecond = 40;
// Counts of a shorter time are too coarse for a rate.
constexpr std::chrono::duration<double> kLeastTime{0.05};

struct Connection {
  std::int64_t open = 0;
  RemoteAddress remote;
};

}  // namespace

struct StreamRules::Host {
  std::int64_t unseen = 0;
  std::vector<Connection> connections;
};

StreamRules::StreamRules(const Limits& limits, Sources sources)
    : limits_(limits), sources_(std::move(sources)) {}

std::vector<RemoteAddress> StreamRules::Over(std::vector<SocketStreams> all,
                                             std::chrono::duration<double> since) {
  std::vector<RemoteAddress> over;
  absl::flat_hash_map<std::int64_t, std::int64_t> failed;
  const auto is_over = [&](const SocketStreams& streams) {
    failed.emplace(streams.socket, streams.failed);
    if (!HasTooManyOpen(streams) && !FailsTooFast(streams, std::max(since, kLeastTime))) {
      return false;
    }
    std::optional<RemoteAddress> remote = sources_.remote(streams);
    if (remote) over.push_back(*std::move(remote));
    return true;
  };
  all.erase(std::remove_if(all.begin(), all.end(), is_over), all.end());
  failed_.swap(failed);
  AppendTheMostUnseen(all, over);
  return over;
}

bool StreamRules::HasTooManyOpen(const SocketStreams& streams) const {
  const std::int64_t most = kOpenFactor * limits_.streams;
  if (streams.open() <= most) return false;
  const std::optional<RemoteAddress> remote = sources_.remote(streams);
  return remote && streams.open() - sources_.open_calls(HostOf(remote->first)) > most;
}

bool StreamRules::FailsTooFast(const SocketStreams& streams,
                               std::chrono::duration<double> since) const {
  const auto before = failed_.find(streams.socket);
  const std::int64_t failed = streams.failed - (before != failed_.end() ? before->second : 0);
  return static_cast<double>(failed) > kFailedPerSecond * limits_.streams * since.count();
}

absl::flat_hash_map<std::string, StreamRules::Host> StreamRules::ByHost(
    const std::vector<SocketStreams>& all) const {
  absl::flat_hash_map<std::string, Host> hosts;
  for (const SocketStreams& streams : all) {
    if (streams.open() <= 0) continue;
    std::optional<RemoteAddress> remote = sources_.remote(streams);
    if (!remote) continue;
    Host& host = hosts[HostOf(remote->first)];
    host.unseen += streams.open();
    host.connections.push_back({streams.open(), *std::move(remote)});
  }
  for (auto& [name, host] : hosts) {
    host.unseen = std::max<std::int64_t>(host.unseen - sources_.open_calls(name), 0);
  }
  return hosts;
}

void StreamRules::AppendTheMostUnseen(const std::vector<SocketStreams>& all,
                                      std::vector<RemoteAddress>& over) const {
  std::int64_t open = 0;
  for (const SocketStreams& streams : all) open += streams.open();
  if (open <= limits_.unseen) return;

  absl::flat_hash_map<std::string, Host> hosts = ByHost(all);
  std::int64_t unseen = 0;
  std::vector<Host*> by_unseen;
  for (auto& [name, host] : hosts) {
    unseen += host.unseen;
    by_unseen.push_back(&host);
  }
  std::sort(by_unseen.begin(), by_unseen.end(),
            [](const Host* a, const Host* b) { return a->unseen > b->unseen; });
  for (Host* const host : by_unseen) {
    std::sort(host->connections.begin(), host->connections.end(),
              [](const Connection& a, const Connection& b) { return a.open > b.open; });
    for (Connection& connection : host->connections) {
      if (unseen <= limits_.unseen || host->unseen <= 0) break;
      unseen -= connection.open;
      host->unseen -= connection.open;
      over.push_back(std::move(connection.remote));
    }
  }
}

}  // namespace idempotency::internal

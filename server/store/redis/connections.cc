#include "server/store/redis/connections.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "core/absl_view.h"

namespace idempotency::internal {

// A call that is not answered yet.
struct RedisConnections::Pending {
  std::size_t index = 0;
  // The server does not know its script.
  bool load = false;
  // This server has the key while its slot moves.
  std::optional<RedisAddress> ask_target;
};

// The commands of one round to one server, and whose replies they have.
struct RedisConnections::Exchange {
  enum class Kind { kCall, kSetUp, kWait };
  struct Sent {
    Kind kind = Kind::kCall;
    Pending pending;
  };
  RedisConnection* connection = nullptr;
  std::vector<Sent> sent;
  bool confirm = false;
  // Scripts that are loaded before their first call.
  std::map<const RedisScript*, bool> loaded;
};

namespace {

// "MOVED 3999 127.0.0.1:6381"; nullopt if it is no such answer. A server that does not know the
// host leaves it out: it is that of the server that answered.
std::optional<RedisAddress> TargetOf(std::string_view error, const RedisAddress& from) {
  const std::vector<absl::string_view> parts = absl::StrSplit(AbslView(error), ' ');
  if (parts.size() < 3) return std::nullopt;
  if (absl::StartsWith(parts[2], ":")) {
    RedisAddress address{from.host, 0};
    if (!absl::SimpleAtoi(parts[2].substr(1), &address.port)) return std::nullopt;
    return address;
  }
  absl::StatusOr<RedisAddress> address = ParseRedisAddress(parts[2], 0);
  if (!address.ok()) return std::nullopt;
  return *std::move(address);
}

absl::Status Replaced(const RedisAddress& server) {
  return absl::UnavailableError(absl::StrCat(server.ToString(), ": accepts no writes"));
}

absl::Status NoAnswer(const RedisAddress& server) {
  return absl::UnavailableError(absl::StrCat(server.ToString(), ": no answer"));
}

// Once for each run of a server: a replica that takes over may be configured otherwise, and so may
// a server that was started again.
void LogLosses(RedisConnection& connection, const RedisOptions& options, RedisTopology& topology) {
  if (!topology.NoteRun(connection.address(), connection.server().run_id)) return;
  RedisConnection* const one = &connection;
  RedisFsync fsync;
  const std::pair<const char*, std::string*> settings[] = {
      {"appendfsync", &fsync.appendfsync}, {"no-appendfsync-on-rewrite", &fsync.none_on_rewrite}};
  // One by one: Redis before 7 accepts no more.
  for (const auto& setting : settings) one->Send(RedisWire({"CONFIG", "GET", setting.first}));
  RedisConnection::Exchange({&one, 1}, std::chrono::steady_clock::now() +
                                           absl::ToChronoNanoseconds(options.command_timeout));
  for (const auto& setting : settings) {
    const std::optional<RedisReply> reply = one->Take();
    if (reply) *setting.second = std::string(reply->value()[1].text());
  }
  for (const std::string& warning : RedisDurabilityWarnings(connection.server(), fsync)) {
    spdlog::warn("redis: {}: {}", connection.address().ToString(), warning);
  }
}

}  // namespace

std::size_t FirstSliceOf(absl::Span<const RedisCall> calls) {
  std::size_t bytes = calls.front().wire.size();
  std::size_t first = 1;
  for (; first < calls.size(); ++first) {
    bytes += calls[first].wire.size();
    if (bytes > kMaxRedisSliceBytes) break;
  }
  return first;
}

bool IsRedisConfirmed(const RedisReply& reply, const RedisOptions& options) {
  const RedisValue value = reply.value();
  if (value.IsError()) return false;
  if (!options.wait_aof) return value.IsInteger() && value.integer() >= options.wait_replicas;
  return value[0].integer() >= 1 && value[1].integer() >= options.wait_replicas;
}

absl::StatusOr<std::unique_ptr<RedisConnections>> RedisConnections::Open(
    const RedisOptions& options, RedisTopology& topology, const RedisIdentity& identity) {
  // Private constructor.
  std::unique_ptr<RedisConnections> connections(new RedisConnections(options, topology, identity));
  if (options.mode == RedisOptions::Mode::kCluster) {
    const auto servers = topology.Servers();
    if (!servers.ok()) return servers.status();
    return connections;
  }
  const absl::StatusOr<RedisAddress> server = topology.ServerOf(0);
  if (!server.ok()) return server.status();
  const absl::StatusOr<RedisConnection*> connection = connections->ConnectionTo(*server);
  if (!connection.ok()) return connection.status();
  return connections;
}

bool RedisConnections::Usable() {
  if (options_.mode == RedisOptions::Mode::kCluster) return true;
  return Intact() && connections_.begin()->second->Usable();
}

absl::StatusOr<std::unique_ptr<RedisConnection>> RedisConnections::Connect(
    const RedisAddress& address, const RedisOptions& options, RedisTopology& topology,
    const RedisIdentity& identity) {
  const auto began = std::chrono::steady_clock::now();
  absl::StatusOr<std::unique_ptr<RedisConnection>> opened = RedisConnection::Open(address, options);
  if (opened.ok()) {
    const absl::Status same = identity.Check(**opened, topology, options);
    if (absl::IsFailedPrecondition(same)) topology.NoteLost(address, same);
    if (!same.ok()) opened = same;
  }
  if (opened.ok()) {
    topology.NoteReached(address);
    // Before that RedisStore::Open() looks at them.
    if (!identity.value().empty()) LogLosses(**opened, options, topology);
  } else {
    const auto took = std::chrono::steady_clock::now() - began;
    topology.NoteUnreached(address, opened.status(), absl::FromChrono(took));
  }
  return opened;
}

void RedisConnections::TryFailed(const RedisOptions& options, RedisTopology& topology,
                                 const RedisIdentity& identity) {
  if (options.mode != RedisOptions::Mode::kCluster) return;
  const auto servers = topology.Servers();
  if (!servers.ok()) return;
  const std::optional<RedisAddress> failed = topology.NextFailed(*servers);
  if (!failed) return;
  // Its calls open their own, now that they may.
  Connect(*failed, options, topology, identity).status().IgnoreError();
}

bool RedisConnections::Intact() const {
  if (options_.mode == RedisOptions::Mode::kCluster) return true;
  return connections_.size() == 1 && connections_.begin()->second->Intact() &&
         demotions_ == topology_.demotions();
}

absl::StatusOr<RedisConnection*> RedisConnections::ConnectionTo(const RedisAddress& address) {
  const auto open = connections_.find(address);
  if (open != connections_.end()) {
    if (open->second->Usable()) return open->second.get();
    connections_.erase(open);
  }
  const bool one = options_.mode != RedisOptions::Mode::kCluster;
  if (!one && !topology_.MayTry(address)) {
    return absl::UnavailableError(absl::StrCat(address.ToString(), ": cannot be reached"));
  }
  const std::int64_t demotions = topology_.demotions();
  auto opened = Connect(address, options_, topology_, identity_);
  if (!opened.ok()) return opened.status();
  demotions_ = demotions;
  RedisConnection* const connection = opened->get();
  connections_.emplace(address, *std::move(opened));
  return connection;
}

std::vector<absl::StatusOr<RedisReply>> RedisConnections::Run(absl::Span<const RedisCall> calls) {
  std::vector<absl::StatusOr<RedisReply>> replies;
  replies.reserve(calls.size());
  ran_in_order_ = true;
  while (!calls.empty()) {
    const std::size_t first = FirstSliceOf(calls);
    RunSlice(calls.subspan(0, first), replies);
    calls.remove_prefix(first);
  }
  return replies;
}

void RedisConnections::RunSlice(absl::Span<const RedisCall> calls,
                                std::vector<absl::StatusOr<RedisReply>>& replies) {
  std::vector<std::optional<absl::StatusOr<RedisReply>>> answers(calls.size());
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < calls.size(); ++i) pending.push_back({i, false, std::nullopt});
  for (int round = 0; round < kMaxRounds && !pending.empty(); ++round) {
    const std::size_t servers = RunRound(calls, pending, answers);
    if (round > 0 || servers > 1) ran_in_order_ = false;
  }
  for (auto& answer : answers) {
    if (answer) {
      replies.push_back(*std::move(answer));
    } else {
      replies.emplace_back(absl::UnavailableError("the servers refer to each other"));
    }
  }
}

void RedisConnections::WarnOfLosses(const RedisAddress& server) {
  const absl::StatusOr<RedisConnection*> connection = ConnectionTo(server);
  if (connection.ok()) LogLosses(**connection, options_, topology_);
}

void RedisConnections::CloseUnused() {
  if (options_.mode != RedisOptions::Mode::kCluster) return;
  const auto servers = topology_.Servers();
  for (auto at = connections_.begin(); at != connections_.end();) {
    const bool former =
        servers.ok() && std::find(servers->begin(), servers->end(), at->first) == servers->end();
    at = former || !at->second->Usable() ? connections_.erase(at) : std::next(at);
  }
}

std::size_t RedisConnections::RunRound(
    absl::Span<const RedisCall> calls, std::vector<Pending>& pending,
    std::vector<std::optional<absl::StatusOr<RedisReply>>>& answers) {
  std::map<RedisAddress, Exchange> exchanges;
  std::map<RedisAddress, absl::Status> failures;
  for (const Pending& next : pending) {
    absl::StatusOr<RedisAddress> server =
        next.ask_target ? *next.ask_target : topology_.ServerOf(calls[next.index].slot);
    if (!server.ok()) {
      answers[next.index] = server.status();
      continue;
    }
    Exchange& exchange = exchanges[*server];
    const auto failed = failures.find(*server);
    if (exchange.connection == nullptr && failed == failures.end()) {
      const absl::StatusOr<RedisConnection*> connection = ConnectionTo(*server);
      if (connection.ok()) {
        exchange.connection = *connection;
      } else {
        failures.emplace(*server, connection.status());
      }
    }
    if (exchange.connection == nullptr) {
      answers[next.index] = failures.at(*server);
      continue;
    }
    Queue(calls[next.index], next, exchange);
  }
  std::vector<RedisConnection*> connections;
  bool waits = false;
  for (auto& [server, exchange] : exchanges) {
    if (exchange.connection == nullptr) continue;
    answered_by_ = server;
    if (exchange.confirm) {
      exchange.connection->Send(identity_.WaitWire(options_));
      exchange.sent.push_back({Exchange::Kind::kWait, {}});
      waits = true;
    }
    connections.push_back(exchange.connection);
  }
  const absl::Duration limit =
      options_.command_timeout + (waits ? options_.wait_timeout : absl::ZeroDuration());
  RedisConnection::Exchange(connections,
                            std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(limit));
  pending.clear();
  for (auto& [server, exchange] : exchanges) {
    if (exchange.connection != nullptr) Collect(calls, exchange, pending, answers);
  }
  return exchanges.size();
}

void RedisConnections::Queue(const RedisCall& call, const Pending& next, Exchange& exchange) {
  if (next.load && call.script != nullptr && !exchange.loaded[call.script]) {
    exchange.connection->Send(RedisWire({"SCRIPT", "LOAD", call.script->text}));
    exchange.sent.push_back({Exchange::Kind::kSetUp, {}});
    exchange.loaded[call.script] = true;
  }
  if (next.ask_target) {
    exchange.connection->Send(RedisWire({"ASKING"}));
    exchange.sent.push_back({Exchange::Kind::kSetUp, {}});
  }
  exchange.connection->Send(call.wire);
  exchange.sent.push_back({Exchange::Kind::kCall, next});
  exchange.confirm = exchange.confirm || (call.confirm && options_.waits());
}

void RedisConnections::Collect(absl::Span<const RedisCall> calls, Exchange& exchange,
                               std::vector<Pending>& again,
                               std::vector<std::optional<absl::StatusOr<RedisReply>>>& answers) {
  const RedisAddress server = exchange.connection->address();
  bool confirmed = false;
  bool leave = false;
  for (const Exchange::Sent& sent : exchange.sent) {
    std::optional<RedisReply> reply = exchange.connection->Take();
    if (sent.kind == Exchange::Kind::kWait) confirmed = reply && IsRedisConfirmed(*reply, options_);
    if (sent.kind != Exchange::Kind::kCall) continue;
    std::optional<absl::StatusOr<RedisReply>>& answer = answers[sent.pending.index];
    if (!reply) {
      answer = NoAnswer(server);
    } else if (!reply->value().IsError()) {
      answer = *std::move(reply);
    } else if (auto other = Redirected(server, calls[sent.pending.index], sent.pending,
                                       reply->value().text())) {
      again.push_back(*std::move(other));
    } else {
      leave = leave || IsRedisReplaced(reply->value().text());
      // Its replicas may follow another master by now.
      if (RedisErrorCode(reply->value().text()) == "NOREPLICAS") topology_.Suspect();
      answer = Failure(server, reply->value().text());
    }
  }
  if (leave || !exchange.connection->Usable()) {
    topology_.NoteFailed(server, leave ? Replaced(server) : NoAnswer(server));
    connections_.erase(server);
  }
  if (!exchange.confirm || confirmed) return;
  topology_.Suspect();
  topology_.Log(server, "the replicas did not confirm in time");
  for (const Exchange::Sent& sent : exchange.sent) {
    if (sent.kind != Exchange::Kind::kCall || !calls[sent.pending.index].confirm) continue;
    std::optional<absl::StatusOr<RedisReply>>& answer = answers[sent.pending.index];
    if (answer && answer->ok()) answer = absl::UnavailableError("not confirmed by the replicas");
  }
}

std::optional<RedisConnections::Pending> RedisConnections::Redirected(const RedisAddress& server,
                                                                      const RedisCall& call,
                                                                      const Pending& before,
                                                                      std::string_view error) {
  const std::string_view code = RedisErrorCode(error);
  Pending next = before;
  if (code == "NOSCRIPT" && !before.load) {
    next.load = true;
    return next;
  }
  next.ask_target.reset();
  if (code == "MOVED") {
    const std::optional<RedisAddress> to = TargetOf(error, server);
    if (!to) return std::nullopt;
    topology_.Moved(call.slot, *to);
    return next;
  }
  if (code == "ASK") {
    next.ask_target = TargetOf(error, server);
    if (next.ask_target) return next;
  }
  return std::nullopt;
}

absl::Status RedisConnections::Failure(const RedisAddress& server, std::string_view error) {
  const std::string_view code = RedisErrorCode(error);
  topology_.Log(server, error);
  if (code == "WRONGTYPE") return absl::DataLossError("the key holds no record");
  return absl::UnavailableError(absl::StrCat(server.ToString(), ": ", AbslView(code)));
}

}  // namespace idempotency::internal

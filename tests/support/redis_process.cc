#include "tests/support/redis_process.h"

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/redis/connection.h"
#include "server/store/redis/slots.h"

namespace idempotency::internal::testing {
namespace {

// A start that reads a large append-only file is the slowest.
constexpr Process::Seconds kStartLimit(60);
constexpr absl::Duration kCommandLimit = absl::Seconds(20);

absl::StatusOr<std::string> ServerProgram() {
  if (const char* const given = std::getenv("IDEMPOTENCY_TEST_REDIS"); given != nullptr) {
    return given;
  }
  for (const char* const path : {"/usr/local/bin/redis-server", "/usr/bin/redis-server"}) {
    if (std::filesystem::exists(path)) return path;
  }
  return absl::NotFoundError("no redis-server: run scripts/install-dependencies.sh test");
}

}  // namespace

absl::StatusOr<std::unique_ptr<RedisProcess>> RedisProcess::Create(
    const RedisProcessOptions& options) {
  std::unique_ptr<RedisProcess> process(new RedisProcess(options));  // private constructor
  if (absl::Status started = process->Start(); !started.ok()) return started;
  return process;
}

RedisProcess& RedisProcess::Shared() {
  static const std::unique_ptr<RedisProcess> shared = [] {
    RedisProcessOptions options;
    options.durable = false;
    auto created = Create(options);
    if (!created.ok()) {
      std::fprintf(stderr, "no Redis: %s\n", created.status().ToString().c_str());
      std::abort();
    }
    return *std::move(created);
  }();
  return *shared;
}

RedisProcess::~RedisProcess() { Kill(); }

absl::Status RedisProcess::Start() {
  const absl::StatusOr<std::string> program = ServerProgram();
  if (!program.ok()) return program.status();
  std::vector<std::string> command = {*program};
  if (!options_.sentinel_configuration.empty()) {
    // A Sentinel writes its own file.
    const std::string file = folder_.File("sentinel.conf");
    if (!std::filesystem::exists(file)) std::ofstream(file) << options_.sentinel_configuration;
    command.push_back(file);
    command.push_back("--sentinel");
  }
  command.insert(command.end(), {"--bind", "127.0.0.1", "--dir", folder_.path(),
                                 options_.tls ? "--tls-port" : "--port", absl::StrCat(port())});
  if (options_.tls) command.insert(command.end(), {"--port", "0"});
  if (options_.sentinel_configuration.empty()) {
    command.insert(command.end(), {"--save", "", "--cluster-port", absl::StrCat(bus_port_.number()),
                                   "--appendonly", options_.durable ? "yes" : "no"});
    if (options_.durable) command.insert(command.end(), {"--appendfsync", "always"});
  }
  command.insert(command.end(), options_.settings.begin(), options_.settings.end());
  auto process = Process::Start(command);
  if (!process.ok()) return process.status();
  process_ = *std::move(process);
  const char* const ready =
      options_.sentinel_configuration.empty() ? "Ready to accept connections" : "Sentinel ID is";
  return process_->WaitForText(ready, kStartLimit).status();
}

void RedisProcess::Kill() {
  if (process_ == nullptr) return;
  process_->Signal(SIGCONT);
  // Its output is awaited, which a child that rewrites the append-only file has open too.
  process_->SignalGroup(SIGKILL);
  process_->Kill();
  process_.reset();
}

void RedisProcess::RemoveData() const {
  // Redis 7 has a folder of them, Redis 6 a file.
  for (const char* const name : {"appendonlydir", "appendonly.aof"}) {
    std::filesystem::remove_all(File(name));
  }
}

RedisOptions RedisProcess::options() const {
  RedisOptions options;
  options.addresses = {address()};
  // A busy machine is slow; tests of timeouts set their own.
  options.connect_timeout = absl::Seconds(20);
  options.command_timeout = absl::Seconds(20);
  options.acquire_timeout = absl::Seconds(20);
  options.prefix = absl::StrCat("t", Uuid::Random().ToString());
  options.accept_empty = true;
  return options;
}

absl::StatusOr<RedisReply> RedisProcess::Command(
    absl::Span<const std::string_view> arguments) const {
  RedisOptions options;
  options.connect_timeout = kCommandLimit;
  auto connection = RedisConnection::OpenNode(address(), options);
  if (!connection.ok()) return connection.status();
  (*connection)->Send(RedisWire(arguments));
  RedisConnection* const one = connection->get();
  RedisConnection::Exchange(
      {&one, 1}, std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(kCommandLimit));
  std::optional<RedisReply> reply = one->Take();
  if (!reply) return absl::UnavailableError("no answer");
  return *std::move(reply);
}

RedisReply RedisProcess::Must(absl::Span<const std::string_view> arguments) const {
  absl::StatusOr<RedisReply> reply = Command(arguments);
  if (reply.ok() && !reply->value().IsError()) return *std::move(reply);
  std::fprintf(
      stderr, "Redis: %s: %s\n", std::string(arguments[0]).c_str(),
      reply.ok() ? std::string(reply->value().text()).c_str() : reply.status().ToString().c_str());
  std::abort();
}

absl::StatusOr<std::unique_ptr<RedisClusterProcesses>> RedisClusterProcesses::Create(int masters) {
  auto cluster = std::make_unique<RedisClusterProcesses>();
  for (int i = 0; i < masters; ++i) {
    RedisProcessOptions options;
    options.settings = {"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"};
    auto node = RedisProcess::Create(options);
    if (!node.ok()) return node.status();
    cluster->nodes_.push_back(*std::move(node));
  }
  if (absl::Status joined = cluster->Join(); !joined.ok()) return joined;
  return cluster;
}

absl::Status RedisClusterProcesses::Join() {
  for (int i = 0; i < size(); ++i) {
    const int first = kRedisSlots * i / size();
    const int last = kRedisSlots * (i + 1) / size() - 1;
    node(i).Must({"CLUSTER", "SET-CONFIG-EPOCH", absl::StrCat(i + 1)});
    node(i).Must({"CLUSTER", "ADDSLOTSRANGE", absl::StrCat(first), absl::StrCat(last)});
    if (i == 0) continue;
    node(0).Must({"CLUSTER", "MEET", "127.0.0.1", absl::StrCat(node(i).port()),
                  absl::StrCat(node(i).bus_port())});
  }
  const auto joined = [this] {
    for (int i = 0; i < size(); ++i) {
      const RedisReply info = node(i).Must({"CLUSTER", "INFO"});
      const std::string text(info.value().text());
      if (!absl::StrContains(text, "cluster_state:ok") ||
          !absl::StrContains(text, absl::StrCat("cluster_known_nodes:", size()))) {
        return false;
      }
    }
    return true;
  };
  return Eventually(joined) ? absl::OkStatus() : absl::DeadlineExceededError("no Cluster");
}

RedisOptions RedisClusterProcesses::options() const {
  RedisOptions options = nodes_.front()->options();
  options.mode = RedisOptions::Mode::kCluster;
  return options;
}

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    // The pace of the looks at other processes, which do not report their changes.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace idempotency::internal::testing

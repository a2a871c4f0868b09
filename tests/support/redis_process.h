#ifndef IDEMPOTENCY_TESTS_SUPPORT_REDIS_PROCESS_H_
#define IDEMPOTENCY_TESTS_SUPPORT_REDIS_PROCESS_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "server/store/redis/options.h"
#include "server/store/redis/reply.h"
#include "tests/support/held_port.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {

struct RedisProcessOptions {
  // More settings of the server: {"--name", "value", ...}.
  std::vector<std::string> settings = {};
  // As `--appendonly yes --appendfsync always`; otherwise nothing is kept.
  bool durable = true;
  // It listens with TLS only; the files of settings say how.
  bool tls = false;
  // A Sentinel, with these lines of configuration.
  std::string sentinel_configuration = {};
};

// A private Redis server on a port of 127.0.0.1, with its files in a folder of its own. It ends
// with the object. The environment variable IDEMPOTENCY_TEST_REDIS names another program, such as a
// Valkey server.
//
// Thread-compatible.
class RedisProcess {
 public:
  static absl::StatusOr<std::unique_ptr<RedisProcess>> Create(
      const RedisProcessOptions& options = {});
  // One for all tests of the process that neither stop nor fill it. Aborts if it cannot be started.
  static RedisProcess& Shared();
  ~RedisProcess();

  int port() const { return port_.number(); }
  // The bus port of a node of a Cluster.
  int bus_port() const { return bus_port_.number(); }
  RedisAddress address() const { return {"127.0.0.1", port()}; }
  // For a store on it, under a prefix that no other test has, which is accepted although it is new.
  RedisOptions options() const;
  Process& process() { return *process_; }
  std::string File(const std::string& name) const { return folder_.File(name); }

  absl::Status Start();
  // SIGKILL: what is not in the append-only file is lost.
  void Kill();
  // While it is killed: its data are gone with the next start. A node of a Cluster remains one.
  void RemoveData() const;

  // On a connection of its own, by `options` or without a login. UNAVAILABLE if there is no answer
  // in time. An error of the server is a reply.
  absl::StatusOr<RedisReply> Command(absl::Span<const std::string_view> arguments) const;
  // Aborts if there is no answer, or an error.
  RedisReply Must(absl::Span<const std::string_view> arguments) const;

 private:
  explicit RedisProcess(const RedisProcessOptions& options) : options_(options) {}

  const RedisProcessOptions options_;
  const TempFolder folder_;
  const HeldPort port_;
  const HeldPort bus_port_;
  std::unique_ptr<Process> process_;
};

// A Cluster of masters without replicas, each with a third of the slots, or as many.
class RedisClusterProcesses {
 public:
  static absl::StatusOr<std::unique_ptr<RedisClusterProcesses>> Create(int masters = 3);

  RedisOptions options() const;
  RedisProcess& node(int index) { return *nodes_[static_cast<std::size_t>(index)]; }
  int size() const { return static_cast<int>(nodes_.size()); }

 private:
  absl::Status Join();

  std::vector<std::unique_ptr<RedisProcess>> nodes_;
};

// True once `condition` is, false if it is not within half a minute.
bool Eventually(const std::function<bool()>& condition);

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_REDIS_PROCESS_H_

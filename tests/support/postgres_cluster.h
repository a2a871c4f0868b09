#ifndef IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_CLUSTER_H_
#define IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {

struct PostgresClusterOptions {
  // Off only where no server is crashed and speed matters.
  bool fsync = true;
  // More settings of the server, as "name=value".
  std::vector<std::string> settings = {};
};

// A private Postgres server in a folder of its own, reached through a unix
// socket there. It ends with the object.
//
// Thread-compatible; url() is thread-safe.
class PostgresCluster {
 public:
  // Makes the files and starts the server.
  static absl::StatusOr<std::unique_ptr<PostgresCluster>> Create(
      const PostgresClusterOptions& options = {});
  // A copy of `primary` that follows it and answers reads, until Promote(). The primary's
  // synchronous_standby_names decides whether commits wait for it.
  static absl::StatusOr<std::unique_ptr<PostgresCluster>> CreateStandby(
      const PostgresCluster& primary);
  // One for all tests of the process that do not stop it. Ends with the process; aborts if it
  // cannot be started.
  static PostgresCluster& Shared();
  ~PostgresCluster();

  std::string url() const;
  // Makes an empty database and returns its URL. Aborts if it cannot.
  std::string NewDatabase();

  absl::Status Start();
  // Ends transactions by rolling back, writes all data.
  absl::Status Stop();
  // As in a crash: the next start recovers from the log.
  absl::Status StopImmediate();
  absl::Status Restart();
  // The lines that the server has logged since it started.
  std::string log() const { return server_->Stdout(); }
  // Promotes a standby; returns when it accepts writes.
  void Promote();

 private:
  explicit PostgresCluster(const PostgresClusterOptions& options) : options_(options) {}

  absl::Status Init();
  absl::Status CopyFrom(const PostgresCluster& primary);
  // A program of the server's that creates the files.
  absl::Status Make(std::vector<std::string> command);
  absl::Status StopWith(int signal);

  const PostgresClusterOptions options_;
  TempFolder folder_;
  std::unique_ptr<Process> server_;
  bool is_standby_ = false;
  int databases_ = 0;
};

// Runs SQL on a connection of its own. Aborts if it fails.
void ExecuteSql(const std::string& url, const std::string& sql);

// The server for tests that do not stop it: the one that the environment variable
// IDEMPOTENCY_TEST_POSTGRES names, else PostgresCluster::Shared().
std::string TestPostgresUrl();

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_POSTGRES_CLUSTER_H_

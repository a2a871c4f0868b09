// A replica that is stopped in the middle of its sweep delays no other.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/record_key.h"
#include "postgres/socket_watchdog.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/testing/operations.h"
#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal::testing {
namespace {

// A statement that marks a reservation as long open waits here, for as long as a test requires. It
// is the last statement of a step of the sweep.
constexpr char kHold[] = R"sql(
SET search_path TO idempotency;
CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
BEGIN
  PERFORM pg_advisory_xact_lock_shared(4711);
  RETURN NEW;
END $$;
CREATE TRIGGER hold BEFORE UPDATE ON records FOR EACH ROW
  WHEN (NEW.open_for_long AND NOT OLD.open_for_long) EXECUTE FUNCTION hold();
)sql";

class FrozenReplica : public ::testing::Test {
 protected:
  void SetUp() override {
    MigrateStore(cluster_->url());
    ExecuteSql(cluster_->url(), kHold);
    options_.url = cluster_->url();
    observer_ = PostgresConnection::Open(options_, watchdog_).value();
    store_ = PostgresStore::Create(options_).value();
  }

  std::string Value(const std::string& sql) {
    const auto result = observer_->ExecuteScript(sql);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() && result->rows() > 0 ? result->Text(0, 0) : "";
  }
  bool Await(const std::string& sql, const std::string& value) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (Value(sql) != value) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::unique_ptr<PostgresCluster> cluster_ = PostgresCluster::Create().value();
  SocketWatchdog watchdog_;
  PostgresOptions options_;
  std::unique_ptr<PostgresConnection> observer_;
  std::unique_ptr<PostgresStore> store_;
};

TEST_F(FrozenReplica, LeavesNoLockBehind) {
  std::vector<ExtendOp> heartbeats;
  for (int i = 0; i < 20; ++i) {
    ReserveOp op = ReserveNamed(absl::StrCat("key-", i));
    op.lease = absl::Hours(1);
    const auto verdict = store_->Reserve({&op, 1}).at(0);
    ASSERT_TRUE(verdict.ok()) << verdict.status();
    heartbeats.push_back({op.key, op.id, std::get<Reserved>(*verdict).token, absl::Hours(2), {}});
  }
  Value("UPDATE records SET created_at = created_at - interval '2 minutes' RETURNING 1");
  Value("SELECT pg_advisory_lock(4711)");

  DaemonProcess daemon(cluster_->url(), {"--sweep_interval=100ms"});
  ASSERT_TRUE(
      Await("SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'", "1"));
  daemon.process().Freeze();
  Value("SELECT pg_advisory_unlock(4711)");
  // The server finishes the step that it had received. It gets no other one.
  EXPECT_TRUE(
      Await("SELECT count(*) FROM pg_stat_activity WHERE application_name ="
            " 'idempotencyd' AND state = 'active' AND pid <> pg_backend_pid()",
            "0"));
  EXPECT_EQ(Value("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"), "0")
      << "the locks of a replica that is stopped are gone with its statement";
  for (const auto& extended : store_->Extend(heartbeats)) {
    EXPECT_TRUE(extended.ok()) << extended.status();
  }
}

}  // namespace
}  // namespace idempotency::internal::testing

// An inspection proves that commits are possible, at a cost that does not grow with the table.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/testing/server_fixture.h"
#include "server/store/store_gauges.h"

namespace idempotency::internal {
namespace {

// The commits of a busy store prove that commits are possible.
TEST_F(PostgresStoreTest, AnInspectionWritesOnlyWhereNothingElseWas) {
  ASSERT_TRUE(Reserve(OpFor("busy")).ok());
  const std::string written = schema_->Value("SELECT count(*) FROM commit_probe");
  ASSERT_TRUE(store_->Inspect().ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM commit_probe"), written);
  const auto idle = PostgresStore::Create(schema_->options()).value();
  ASSERT_TRUE(idle->Inspect().ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM commit_probe"), "1");
}

// Any write proves it, and a read does not.
TEST_F(PostgresStoreTest, OnlyWhatWasWrittenProvesThatCommitsCanBeHad) {
  const ReserveOp op = OpFor("one");
  const auto granted = Reserve(op);
  ASSERT_TRUE(granted.ok());
  const Uuid token = std::get<Reserved>(*granted).token;
  const CompleteOp completion = CompletionOf(op, granted);
  const ExtendOp extension{op.key, op.id, token, absl::Minutes(1), std::nullopt};
  const auto probed = [this] {
    return schema_->Value("SELECT coalesce(max(written_at)::text, '') FROM commit_probe");
  };
  const auto expect_probe = [&](bool expected, const std::string& what, auto call) {
    store_ = PostgresStore::Create(schema_->options()).value();
    call();
    const std::string before = probed();
    ASSERT_TRUE(store_->Inspect().ok());
    EXPECT_EQ(probed() != before, expected) << what;
  };
  expect_probe(true, "nothing", [] {});
  expect_probe(true, "a repeated grant", [&] { EXPECT_TRUE(Reserve(op).ok()); });
  expect_probe(false, "an extension", [&] {
    EXPECT_TRUE(store_->Extend({&extension, 1}).at(0).ok());
  });
  expect_probe(false, "a completion", [&] { EXPECT_TRUE(Complete(completion).ok()); });
  expect_probe(true, "a repeated completion", [&] { EXPECT_TRUE(Complete(completion).ok()); });
  expect_probe(true, "a replay", [&] { EXPECT_TRUE(Reserve(op).ok()); });
  expect_probe(true, "a lost reservation", [&] {
    EXPECT_FALSE(Complete({op.key, op.id, Uuid::Random(), ReplyWith("")}).ok());
  });
  const ReserveOp fresh = OpFor("two");
  expect_probe(false, "a new grant beside a repeated completion", [&] {
    EXPECT_TRUE(store_->CompleteAndReserve({&completion, 1}, {&fresh, 1}).verdicts.at(0).ok());
  });
  expect_probe(true, "both repeated", [&] {
    EXPECT_TRUE(store_->CompleteAndReserve({&completion, 1}, {&fresh, 1}).verdicts.at(0).ok());
  });
}

// With any number of records that wait for recovery, and of abandoned ones.
TEST_F(PostgresStoreTest, AnInspectionReadsABoundedNumberOfRows) {
  constexpr int kRecords = 30'000;
  ASSERT_TRUE(
      schema_
          ->Execute(absl::StrCat(
              "INSERT INTO records (id, namespace, scope, operation, key, state, watched,"
              " open_for_long, require_recovery, attempt, token, created_at, lease_until,"
              " expires_at, fingerprints)"
              " SELECT gen_random_uuid(), 'n', 's', 'o', i::text, CASE WHEN i % 2 = 0 THEN 4"
              " ELSE 1 END, i % 2 = 0, i % 2 = 1, true, 1, gen_random_uuid(),"
              " now() - interval '1 day', now() - interval '1 hour', now() + interval '1 day', 'f'"
              " FROM generate_series(1, ",
              kRecords, ") i; ANALYZE records"))
          .ok());
  const std::string inspect = PostgresStatements(schema_->options().clock_sql).inspect.sql;
  const auto plan =
      schema_->Execute(absl::StrCat("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) ", inspect));
  ASSERT_TRUE(plan.ok()) << plan.status();
  int rows = 0;
  for (int row = 0; row < plan->rows(); ++row) {
    const std::string line = plan->Text(row, 0);
    const std::size_t at = line.find("(actual rows=");
    if (at == std::string::npos || line.find("Scan") == std::string::npos) continue;
    rows += std::stoi(line.substr(at + 13));
  }
  EXPECT_GT(rows, 0);
  EXPECT_LE(rows, 2 * 4 * StoreGauges::kMaxCountedUnknown) << "of each kind, twice where a scan is"
                                                              " under another";
  EXPECT_EQ(store_->Inspect()->unknown_records, StoreGauges::kMaxCountedUnknown);
}

TEST_F(PostgresFaultTest, AnInspectionFailsWhileTheServerOnlyReads) {
  PostgresOptions options = schema_->options();
  options.commit_proof = absl::ZeroDuration();
  const auto store = PostgresStore::Create(options).value();
  ASSERT_TRUE(store->Inspect().ok());
  const auto set = [&](const std::string& value) {
    ASSERT_TRUE(
        schema_->Execute(absl::StrCat("ALTER SYSTEM SET default_transaction_read_only TO ", value))
            .ok());
    ASSERT_TRUE(schema_->Execute("SELECT pg_reload_conf()").ok());
  };
  const auto await = [&](bool ok) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (store->Inspect().ok() != ok) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  };
  ASSERT_TRUE(schema_->Execute("SET default_transaction_read_only TO off").ok());
  set("on");
  EXPECT_TRUE(await(false));
  set("off");
  EXPECT_TRUE(await(true));
}

}  // namespace
}  // namespace idempotency::internal

#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_DAMAGE_FIXTURE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_DAMAGE_FIXTURE_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/testing/reply_replacer.h"
#include "server/store/postgres/testing/store_fixture.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal {

// Each with statements of both modes.
class PostgresModesTest : public PostgresStoreTest,
                          public ::testing::WithParamInterface<PostgresStatementMode> {
 protected:
  static constexpr int kMaxSteps = 500;

  void SetUp() override {
    statements_ = GetParam();
    PostgresStoreTest::SetUp();
    Must("ALTER TABLE records ALTER reply SET STORAGE EXTERNAL");
  }
  void Must(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }
  void Run(const ReserveOp& op) {
    CompleteOp done = CompletionOf(op, Reserve(op));
    done.reply = ReplyWith(std::string(16 * 1024, 'r'));
    ASSERT_TRUE(Complete(done).ok());
  }
  // One pass.
  SweepProgress SweepAll() {
    SweepProgress pass;
    SweepOp op;
    for (int steps = 0; steps < kMaxSteps; ++steps) {
      const auto step = store_->Sweep(op);
      EXPECT_TRUE(step.ok()) << step.status();
      if (!step.ok()) return pass;
      pass.removed += step->removed;
      pass.visited += step->visited;
      op.after = step->next;
      if (!op.after) return pass;
    }
    ADD_FAILURE() << "the pass does not end";
    return pass;
  }
};

inline std::string ModeName(const ::testing::TestParamInfo<PostgresStatementMode>& info) {
  return info.param == PostgresStatementMode::kBatched ? "Batched" : "SingleRow";
}

// Reading one of some rows fails with a state, and is counted: a sequence keeps its number.
inline constexpr char kUnreadableRows[] = R"sql(
CREATE SEQUENCE failed_reads MINVALUE 0 START 0;
SELECT nextval('failed_reads');
CREATE FUNCTION is_sound(key text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF key IN ({keys}) THEN
    PERFORM nextval('failed_reads');
    RAISE EXCEPTION 'no' USING ERRCODE = '{state}';
  END IF;
  RETURN true;
END $$;
ALTER TABLE records RENAME TO pages;
CREATE VIEW records AS SELECT * FROM pages WHERE is_sound(key)
)sql";

// Three rows of one range, the one in the middle on a page that no statement can read.
class PostgresUnreadableRowTest : public PostgresModesTest {
 protected:
  // By the order of the ranges. UNKNOWN since an hour, and of one parent.
  std::vector<ReserveOp> MakeUnknown(const std::vector<std::string>& scopes) {
    std::vector<ReserveOp> ops;
    for (int i = 0; i < 3; ++i) {
      ReserveOp& op = ops.emplace_back(OpFor(absl::StrCat(i)));
      if (!scopes.empty()) op.key.scope = scopes[static_cast<std::size_t>(i)];
      op.id = RecordIdFor(op.key);
      op.parent = OpFor("parent").key;
    }
    std::sort(ops.begin(), ops.end(), [](const ReserveOp& a, const ReserveOp& b) {
      return std::tie(a.key.scope, a.id) < std::tie(b.key.scope, b.id);
    });
    for (const ReserveOp& op : ops) {
      const auto granted = Reserve(op);
      EXPECT_TRUE(granted.ok()) << granted.status();
      const ReleaseOp release{op.key, op.id, CompletionOf(op, granted).token, "why", true};
      EXPECT_TRUE(store_->Release({&release, 1}).at(0).ok());
    }
    Must(
        "UPDATE records SET created_at = created_at - interval '1 hour',"
        " lease_until = created_at - interval '1 hour'");
    return ops;
  }
  void Lose(const std::vector<const ReserveOp*>& ops) {
    std::vector<std::string> keys;
    for (const ReserveOp* const op : ops) keys.push_back(absl::StrCat("'", op->key.key, "'"));
    Must(absl::StrReplaceAll(kUnreadableRows,
                             {{"{keys}", absl::StrJoin(keys, ", ")}, {"{state}", state_}}));
  }
  // Of the rows that are lost.
  std::int64_t FailedReads() {
    std::int64_t reads = -1;
    EXPECT_TRUE(absl::SimpleAtoi(schema_->Value("SELECT last_value FROM failed_reads"), &reads));
    return reads;
  }
  // They can be read again.
  void Mend() {
    Must(
        "CREATE OR REPLACE FUNCTION is_sound(key text) RETURNS boolean LANGUAGE sql AS"
        " 'SELECT true'");
  }
  // Calls `step` of a walk, which returns a place, until its end.
  template <typename Op, typename Step>
  static void Walk(Op op, const Step& step) {
    int steps = 0;
    do {
      ASSERT_LT(++steps, kMaxSteps) << "the walk does not end";
      const auto done = step(op);
      ASSERT_TRUE(done.ok()) << done.status();
      op.after = *done;
    } while (op.after);
  }
  NamespaceUsage Measure() {
    NamespaceUsage usage;
    UsageOp measure;
    measure.name_space = "payments";
    Walk(measure, [&](const UsageOp& op) -> absl::StatusOr<std::optional<RecordPlace>> {
      const auto step = store_->MeasureUsage(op);
      if (!step.ok()) return step.status();
      usage.records += step->usage.records;
      return step->next;
    });
    return usage;
  }
  // The sums of a purge.
  PurgeStep Purge(const PurgeOp& purge) {
    PurgeStep sums;
    Walk(purge, [&](const PurgeOp& op) -> absl::StatusOr<std::optional<RecordPlace>> {
      const auto step = store_->Purge(op);
      if (!step.ok()) return step.status();
      sums.purged.insert(sums.purged.end(), step->purged.begin(), step->purged.end());
      sums.busy += step->busy;
      return step->next;
    });
    return sums;
  }
  static PurgeOp PurgeOfAll() {
    PurgeOp purge;
    purge.name_space = "payments";
    purge.created_before = absl::Now() + absl::Hours(1);
    purge.force = true;
    purge.note = {"alice", "ticket 42"};
    return purge;
  }
  std::int64_t EndUnknown() {
    std::int64_t ended = 0;
    EndUnknownOp end;
    end.name_space = "payments";
    end.life = absl::Minutes(1);
    Walk(end, [&](const EndUnknownOp& op) -> absl::StatusOr<std::optional<RecordId>> {
      const auto step = store_->EndUnknown(op);
      if (!step.ok()) return step.status();
      ended += step->ended;
      return step->next;
    });
    return ended;
  }
  // The sums of a reseal.
  ResealStep Reseal() {
    ReplyReplacer sealer;
    ResealOp reseal;
    reseal.name_space = "payments";
    reseal.note = {"alice", "ticket 42"};
    reseal.sealer = &sealer;
    ResealStep sums;
    Walk(reseal, [&](const ResealOp& op) -> absl::StatusOr<std::optional<RecordPlace>> {
      const auto step = store_->Reseal(op);
      if (!step.ok()) return step.status();
      sums.examined += step->examined;
      sums.busy += step->busy;
      sums.damaged.insert(sums.damaged.end(), step->damaged.begin(), step->damaged.end());
      sums.resealed.insert(sums.resealed.end(), step->resealed.begin(), step->resealed.end());
      return step->next;
    });
    return sums;
  }
  RecordPage ListAll(const ListOp& list) {
    RecordPage all;
    Walk(list, [&](const ListOp& op) -> absl::StatusOr<std::optional<RecordPlace>> {
      const auto page = store_->List(op);
      if (!page.ok()) return page.status();
      all.records.insert(all.records.end(), page->records.begin(), page->records.end());
      all.damaged += page->damaged;
      return page->next;
    });
    return all;
  }

  // Of the reads that fail.
  std::string state_ = "XX001";
};

// A page in the middle of the table, overwritten while the server is stopped.
class PostgresDamagedPageTest : public PostgresUnreadableRowTest {
 protected:
  static constexpr int kRows = 400;
  static constexpr int kBlock = 3;

  void SetUp() override {
    auto cluster = testing::PostgresCluster::Create();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    statements_ = GetParam();
    Open(cluster_->url());
  }
  void TearDown() override {
    store_.reset();
    schema_.reset();
  }
  // Half of the rows are alone in their scopes.
  void Fill() {
    Must(absl::StrCat(
        "INSERT INTO records (id, namespace, scope, operation, key, state, require_recovery,"
        " attempt, token, created_at, lease_until, expires_at, fingerprints, watched)"
        " SELECT gen_random_uuid(), 'payments', CASE WHEN i % 2 = 0 THEN 's' ELSE 't' || i END,"
        " 'o', i::text, 4, true, 1, gen_random_uuid(), now() - interval '2 hours',"
        " now() - interval '1 hour', now() + interval '1 day',"
        " '\\x0000000120'::bytea || sha256('f'), true FROM generate_series(1, ",
        kRows, ") i"));
  }
  // How many rows are lost, of a page of `table`.
  std::int64_t Damage(const std::string& table = "records", int block = kBlock) {
    std::int64_t rows = 0;
    EXPECT_TRUE(
        absl::SimpleAtoi(schema_->Value(absl::StrCat("SELECT count(*) FROM ", table,
                                                     " WHERE (ctid::text::point)[0] = ", block)),
                         &rows));
    const std::string path = FileOf(absl::StrCat("'", table, "'"));
    store_.reset();
    EXPECT_TRUE(cluster_->Stop().ok());
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(std::streamoff{block} * 8192);
    file << std::string(64, '\xFF');
    file.close();
    EXPECT_TRUE(file.good());
    EXPECT_TRUE(cluster_->Start().ok());
    OpenStore();
    return rows;
  }

  // Of a relation, an SQL expression.
  std::string FileOf(const std::string& relation) {
    return schema_->Value(absl::StrCat(
        "SELECT current_setting('data_directory') || '/' || pg_relation_filepath(", relation, ")"));
  }
  // The errors that the server logs during `call`.
  template <typename Call>
  int ErrorsOf(const Call& call) {
    const std::size_t before = LogSize("begin");
    call();
    const std::size_t end = LogSize("end");
    const std::string log = cluster_->log().substr(before, end - before);
    int errors = 0;
    for (std::size_t at = 0; (at = log.find("ERROR:", at)) != std::string::npos; ++at) ++errors;
    return errors - 1;  // that of the mark
  }

  std::unique_ptr<testing::PostgresCluster> cluster_;

 private:
  // Once all that was logged before has arrived here.
  std::size_t LogSize(const std::string& mark) {
    const std::string name = absl::StrCat("mark_", mark, "_", ++marks_);
    EXPECT_FALSE(schema_->Execute(absl::StrCat("SELECT 1/0 AS ", name)).ok());
    const std::string statement = absl::StrCat("STATEMENT:  SELECT 1/0 AS ", name);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      const std::string log = cluster_->log();
      if (const std::size_t at = log.find(statement); at != std::string::npos) {
        return at + statement.size();
      }
      std::this_thread::yield();
    }
    ADD_FAILURE() << "the server did not log " << statement;
    return cluster_->log().size();
  }

  int marks_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_DAMAGE_FIXTURE_H_

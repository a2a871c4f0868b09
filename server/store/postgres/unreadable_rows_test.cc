// Walks over rows that the server cannot read, again and over several tables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/testing/damage_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::Gt;
using ::testing::Le;

class PostgresKnownRowTest : public PostgresUnreadableRowTest {
 protected:
  // How many reads fail in `walk`.
  template <typename Call>
  std::int64_t FailedReadsOf(const Call& walk) {
    const std::int64_t before = FailedReads();
    walk();
    return FailedReads() - before;
  }
  // Repeats `walk` until it is what was awaited, or 20 seconds have passed.
  template <typename Call>
  static bool Eventually(const Call& walk) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!walk()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresKnownRowTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresKnownRowTest, IsReadByNoFurtherMeasurementOrSweep) {
  const std::vector<ReserveOp> ops = MakeUnknown({"a", "a", "b"});
  Lose({&ops[0], &ops[1]});
  const auto measure = [this] { EXPECT_EQ(Measure().records, 3); };
  const auto sweep = [this] { EXPECT_EQ(SweepAll().visited, 3); };
  EXPECT_THAT(FailedReadsOf(measure), Gt(20));
  EXPECT_THAT(FailedReadsOf(sweep), Gt(20));
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_EQ(FailedReadsOf(measure), 0);
    EXPECT_EQ(FailedReadsOf(sweep), 0);
  }
}

// The third record is ended and nothing else.
TEST_P(PostgresKnownRowTest, IsReadByNoFurtherEndOfUnknownRecords) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[0], &ops[1]});
  EXPECT_EQ(EndUnknown(), 1);
  const auto end = [this] { EXPECT_EQ(EndUnknown(), 0); };
  // With statements for each record the read of the record fails too.
  EXPECT_THAT(FailedReadsOf(end), Le(GetParam() == PostgresStatementMode::kSingleRow ? 2 : 0));
}

TEST_P(PostgresKnownRowTest, IsReadOnceByAnAdministratorsWalk) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  ListOp list;
  list.name_space = "payments";
  const auto list_all = [&] {
    const RecordPage listed = ListAll(list);
    EXPECT_EQ(listed.records.size(), 2u);
    EXPECT_EQ(listed.damaged, 1);
  };
  EXPECT_THAT(FailedReadsOf(list_all), Gt(20));
  for (int pass = 0; pass < 3; ++pass) EXPECT_THAT(FailedReadsOf(list_all), Le(2));
  Mend();
  EXPECT_EQ(ListAll(list).records.size(), 3u) << "at once";
  EXPECT_EQ(ListAll(list).damaged, 0);
}

TEST_P(PostgresKnownRowTest, ThatIsMendedIsFoundAfterThePause) {
  unreadable_pause_ = absl::Milliseconds(1);
  Open(testing::TestPostgresUrl());
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Must(
      "UPDATE records SET state = 3, watched = false, created_at = created_at - interval '99 days',"
      " lease_until = lease_until - interval '99 days',"
      " expires_at = expires_at - interval '99 days'");
  Lose({&ops[1]});
  EXPECT_EQ(SweepAll().removed, 2);
  EXPECT_EQ(Measure().records, 1) << "counts as live";
  Mend();
  EXPECT_TRUE(Eventually([this] { return SweepAll().removed == 1; }));
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pages"), "0");
  EXPECT_EQ(Measure().records, 0);
}

TEST_P(PostgresKnownRowTest, ThatIsGoneIsPassed) {
  unreadable_pause_ = absl::Milliseconds(1);
  Open(testing::TestPostgresUrl());
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  ListOp list;
  list.name_space = "payments";
  EXPECT_EQ(ListAll(list).damaged, 1);
  EXPECT_EQ(Measure().records, 3);
  EXPECT_EQ(SweepAll().visited, 3);
  Must(absl::StrCat("DELETE FROM pages WHERE key = '", ops[1].key.key, "'"));
  const RecordPage listed = ListAll(list);
  EXPECT_EQ(listed.records.size(), 2u);
  EXPECT_EQ(listed.damaged, 0);
  EXPECT_TRUE(Eventually([this] { return Measure().records == 2; }));
  EXPECT_TRUE(Eventually([this] { return SweepAll().visited == 2; }));
}

class PostgresKnownPageTest : public PostgresDamagedPageTest {};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresKnownPageTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresKnownPageTest, FillsNoLog) {
  Fill();
  const std::int64_t lost = Damage();
  ASSERT_GT(lost, 10);
  const auto measure = [this] { EXPECT_EQ(Measure().records, kRows); };
  const auto sweep = [this] { EXPECT_EQ(SweepAll().visited, kRows); };
  EXPECT_THAT(ErrorsOf(measure), Gt(500));
  EXPECT_THAT(ErrorsOf(sweep), Gt(500));
  EXPECT_EQ(ErrorsOf(measure), 0);
  EXPECT_EQ(ErrorsOf(sweep), 0);
  ListOp list;
  list.name_space = "payments";
  const auto list_all = [&] { EXPECT_EQ(ListAll(list).damaged, lost); };
  EXPECT_THAT(ErrorsOf(list_all), Le(3 * static_cast<int>(lost))) << "found by the measurement";
}

// As on the nodes of a distributed server: a statement meets the next row of each table.
class PostgresPartitionsTest : public PostgresDamagedPageTest {
 protected:
  static constexpr int kPartitions = 4;

  void Distribute() {
    Must("ALTER TABLE records RENAME TO whole");
    Must("CREATE TABLE records (LIKE whole INCLUDING ALL) PARTITION BY HASH (id)");
    for (int i = 0; i < kPartitions; ++i) {
      Must(absl::StrCat("CREATE TABLE records_", i,
                        " PARTITION OF records FOR VALUES WITH (MODULUS ", kPartitions,
                        ", REMAINDER ", i, ")"));
    }
    Must("DROP TABLE whole");
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresPartitionsTest,
                         ::testing::Values(PostgresStatementMode::kSingleRow), ModeName);

TEST_P(PostgresPartitionsTest, ADamagedPageOfOneStopsNoWalk) {
  Distribute();
  Fill();
  const std::int64_t lost = Damage("records_1", /*block=*/1);
  ASSERT_GT(lost, 10);
  EXPECT_EQ(Measure().records, kRows);
  ListOp all;
  all.name_space = "payments";
  ListOp of_scope = all;
  of_scope.scope = "s";
  ListOp unknown = all;
  unknown.state = RecordState::kUnknown;
  for (const ListOp& list : {all, of_scope, unknown}) {
    const RecordPage listed = ListAll(list);
    std::set<RecordId> ids;
    for (const Record& record : listed.records) ids.insert(record.id);
    EXPECT_EQ(ids.size(), listed.records.size()) << "one twice";
    const std::int64_t rows = list.scope ? kRows / 2 : kRows;
    EXPECT_EQ(static_cast<std::int64_t>(ids.size()) + listed.damaged, rows);
    if (!list.scope) EXPECT_EQ(listed.damaged, lost);
  }
  const ResealStep sealed = Reseal();
  EXPECT_EQ(sealed.examined, kRows);
  EXPECT_EQ(sealed.damaged.size(), static_cast<std::size_t>(lost));
  const SweepProgress swept = SweepAll();
  EXPECT_EQ(swept.visited, kRows);
  EXPECT_EQ(SweepAll().visited, kRows) << "by the known places";
  const PurgeStep purged = Purge(PurgeOfAll());
  EXPECT_EQ(static_cast<std::int64_t>(purged.purged.size()) + purged.busy, kRows);
  EXPECT_GE(purged.busy, lost);
  EXPECT_GT(purged.purged.size(), 0u);
}

}  // namespace
}  // namespace idempotency::internal

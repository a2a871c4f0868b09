// A part of a file that the server's storage does not give refuses the calls that need it, and
// settles nothing: it may be back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/testing/damage_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::Gt;
using ::testing::Le;

// A bad sector below one row.
class PostgresBadSectorTest : public PostgresUnreadableRowTest {
 protected:
  void SetUp() override {
    state_ = "58030";
    PostgresUnreadableRowTest::SetUp();
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresBadSectorTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresBadSectorTest, RefusesTheCallsOfItsRowAlone) {
  std::vector<ReserveOp> ops = {OpFor("0"), OpFor("1"), OpFor("2")};
  std::vector<CompleteOp> completions;
  for (const ReserveOp& op : ops) completions.push_back(CompletionOf(op, Reserve(op)));
  Lose({&ops[1]});

  std::vector<ExtendOp> extensions;
  std::vector<GetOp> looks;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    extensions.push_back(
        {ops[i].key, ops[i].id, completions[i].token, absl::Hours(1), std::nullopt});
    looks.push_back({ops[i].id, ops[i].key, /*confirmed=*/false});
  }
  const auto extended = store_->Extend(extensions);
  const auto read = store_->Get(looks);
  const auto completed = store_->Complete(completions);
  for (ReserveOp& op : ops) op.request_token = Uuid::Random();
  const auto replays = store_->Reserve(ops);
  for (const std::size_t other : {0, 2}) {
    EXPECT_TRUE(extended[other].ok()) << extended[other].status();
    EXPECT_TRUE(read[other].ok()) << read[other].status();
    EXPECT_TRUE(completed[other].ok()) << completed[other].status();
    ASSERT_TRUE(replays[other].ok()) << replays[other].status();
    EXPECT_TRUE(std::holds_alternative<Replay>(*replays[other]));
  }
  EXPECT_EQ(ReasonOf(extended[1].status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(read[1].status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(completed[1].status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(replays[1].status()), Reason::kStoreUnavailable);
  EXPECT_EQ(store_->connections().broken, 0);

  Mend();
  EXPECT_TRUE(Complete(completions[1]).ok()) << "with the same token";
}

TEST_P(PostgresBadSectorTest, RefusesInASharedCommitItsRowAlone) {
  const std::vector<ReserveOp> ops = {OpFor("0"), OpFor("1")};
  std::vector<CompleteOp> completions;
  for (const ReserveOp& op : ops) completions.push_back(CompletionOf(op, Reserve(op)));
  Lose({&ops[1]});
  const ReserveOp fresh = OpFor("2");
  const SharedAnswers answers = store_->CompleteAndReserve(completions, {&fresh, 1});
  EXPECT_TRUE(answers.completions[0].ok()) << answers.completions[0].status();
  EXPECT_EQ(ReasonOf(answers.completions[1].status()), Reason::kStoreUnavailable);
  EXPECT_TRUE(answers.verdicts[0].ok()) << answers.verdicts[0].status();
}

TEST_P(PostgresBadSectorTest, StopsNoWalk) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  EXPECT_EQ(Measure().records, 3) << "counts as live";
  ListOp list;
  list.name_space = "payments";
  const RecordPage listed = ListAll(list);
  EXPECT_EQ(listed.records.size(), 2u);
  EXPECT_EQ(listed.damaged, 1);
  const ResealStep sealed = Reseal();
  EXPECT_EQ(sealed.examined, 3);
  EXPECT_EQ(sealed.damaged, std::vector<RecordId>({ops[1].id}));
  EXPECT_EQ(SweepAll().visited, 3);
  PurgeOp counted = PurgeOfAll();
  counted.validate_only = true;
  EXPECT_EQ(Purge(counted).busy, 1);
  EXPECT_EQ(EndUnknown(), 2);
}

TEST_P(PostgresBadSectorTest, IsBusyForAPurge) {
  const std::vector<ReserveOp> ops = MakeUnknown({});
  Lose({&ops[1]});
  const std::vector<RecordId> others = {ops[0].id, ops[2].id};
  const PurgeStep purged = Purge(PurgeOfAll());
  EXPECT_EQ(purged.busy, 1);
  EXPECT_EQ(purged.purged, others);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pages"), "1");
}

// The server's files, changed while it is stopped.
class PostgresLostFileTest : public PostgresDamagedPageTest {
 protected:
  // What stands in the place of a file.
  struct Loss {
    const char* reason;
    // A link to this, or nothing.
    const char* link;
  };
  static constexpr Loss kLosses[] = {
      {"a part that cannot be read: 58030", "/proc/self/mem"},
      {"no file: 58P01", nullptr},
      {"an error without a SQLSTATE: XX000", "{loop}"},
  };

  void Lose(const std::string& path, const Loss& loss) {
    const auto change = [&] {
      std::filesystem::rename(path, absl::StrCat(path, ".away"));
      if (loss.link == nullptr) return;
      const std::string link = loss.link;
      std::filesystem::create_symlink(link == "{loop}" ? path : link, path);
    };
    Change(change);
  }
  void Return(const std::string& path) {
    Change([&] { std::filesystem::rename(absl::StrCat(path, ".away"), path); });
  }

 private:
  template <typename Call>
  void Change(const Call& change) {
    store_.reset();
    ASSERT_TRUE(cluster_->Stop().ok());
    change();
    ASSERT_TRUE(cluster_->Start().ok());
    OpenStore();
  }
};

INSTANTIATE_TEST_SUITE_P(Statements, PostgresLostFileTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         ModeName);

TEST_P(PostgresLostFileTest, OfLargeRepliesRefusesTheirCallsAlone) {
  Must("ALTER TABLE records ALTER reply SET STORAGE EXTERNAL");
  std::vector<ReserveOp> ops = {OpFor("0"), OpFor("large"), OpFor("2")};
  for (ReserveOp& op : ops) {
    op.reply_retention = absl::Hours(1);
    if (op.key.key == "large") {
      Run(op);
    } else {
      ASSERT_TRUE(Complete(CompletionOf(op, Reserve(op))).ok());
    }
  }
  const std::string replies =
      FileOf("(SELECT reltoastrelid FROM pg_class WHERE oid = 'records'::regclass)");
  for (const Loss& loss : kLosses) {
    SCOPED_TRACE(loss.reason);
    Lose(replies, loss);
    for (ReserveOp& op : ops) op.request_token = Uuid::Random();
    const auto verdicts = store_->Reserve(ops);
    for (const std::size_t other : {0, 2}) {
      ASSERT_TRUE(verdicts[other].ok()) << verdicts[other].status();
      EXPECT_TRUE(std::holds_alternative<Replay>(*verdicts[other]));
    }
    EXPECT_EQ(ReasonOf(verdicts[1].status()), Reason::kStoreUnavailable) << verdicts[1].status();
    EXPECT_EQ(SweepAll().visited, 3);
    Return(replies);
    const auto replay = Reserve(ops[1]);
    ASSERT_TRUE(replay.ok()) << replay.status();
    EXPECT_TRUE(std::holds_alternative<Replay>(*replay));
  }
  Must("UPDATE records SET reply_until = clock_timestamp() - interval '1 minute'");
  Lose(replies, kLosses[0]);
  EXPECT_EQ(store_->Sweep({})->replies_dropped, 2);
  Return(replies);
  EXPECT_EQ(store_->Sweep({})->replies_dropped, 1);
}

TEST_P(PostgresLostFileTest, OfTheRecordsIsAnOutageThatCostsAFewStatements) {
  constexpr int kOperations = 100;
  Fill();
  std::vector<ReserveOp> ops;
  for (int i = 0; i < kOperations; ++i) {
    ops.push_back(OpFor(absl::StrCat("new-", i)));
    ops.back().only_existing = true;
  }
  const std::string records = FileOf("'records'");
  Lose(records, kLosses[0]);
  const auto reserve = [&] {
    for (const auto& verdict : store_->Reserve(ops)) {
      EXPECT_EQ(ReasonOf(verdict.status()), Reason::kStoreUnavailable) << verdict.status();
    }
  };
  // With statements for each record that is one for each.
  EXPECT_THAT(ErrorsOf(reserve),
              Le(GetParam() == PostgresStatementMode::kSingleRow ? kOperations : 16));
  const auto measure = [&] {
    UsageOp op;
    op.name_space = "payments";
    EXPECT_EQ(ReasonOf(store_->MeasureUsage(op).status()), Reason::kStoreUnavailable);
  };
  EXPECT_THAT(ErrorsOf(measure), Le(20));
  const auto sweep = [&] {
    EXPECT_EQ(ReasonOf(store_->Sweep({}).status()), Reason::kStoreUnavailable);
  };
  EXPECT_THAT(ErrorsOf(sweep), Le(20));
  Return(records);
  EXPECT_EQ(Measure().records, kRows);
}

}  // namespace
}  // namespace idempotency::internal

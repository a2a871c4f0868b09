// Every statement that changes a record repeats the conditions that the record must still meet:
// between the read and the change it may have become another caller's.
#include "server/store/postgres/statements/batched.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "absl/time/clock.h"

#include "core/sha256.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/statements/single_row.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

// Its lease is over, its expiry is far in the future.
constexpr char kRow[] =
    "INSERT INTO records (id, namespace, scope, operation, key, state, require_recovery, attempt,"
    " token, created_at, lease_until, expires_at, fingerprints) VALUES"
    " ('11111111-1111-1111-1111-111111111111', 'n', 's', 'o', 'k', 1, false, 2,"
    " '22222222-2222-2222-2222-222222222222', '2026-01-01', '2026-01-02', '2100-01-01', 'f')";
constexpr char kCompleted[] =
    "state = 2, completed_at = '2026-01-02', reply = 'r', reply_digest = sha256('r'),"
    " reply_until = '2026-01-03'";
constexpr char kForgotten[] = "state = 3, expires_at = '2026-01-03'";

// The test's change to the row.
constexpr char kOtherToken[] = "token = gen_random_uuid()";
constexpr char kOtherAttempt[] = "attempt = 3";
constexpr char kLiveLease[] = "lease_until = '2099-01-01'";
constexpr char kOver[] = "expires_at = '2026-01-03'";
constexpr char kReleased[] = "state = 3";
constexpr char kUnknown[] = "state = 4, watched = true";

class PostgresStatementsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto schema = testing::PostgresSchema::Create(testing::TestPostgresUrl());
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    auto connection = PostgresConnection::Open(schema_->options(), watchdog_);
    ASSERT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
    statements_ = std::make_unique<PostgresStatements>(schema_->options().clock_sql);
  }

  void Run(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << sql << done.status();
  }

  // Whether the statement changes a row that is `row` after `change`, or the checkpoint beside it.
  bool Changes(const PostgresStatement& statement, const PostgresParameters& parameters,
               const std::string& row, const std::string& change) {
    Run("DELETE FROM checkpoints; DELETE FROM records");
    Run(kRow);
    Run("INSERT INTO checkpoints (id, record_created_at, checkpoint)"
        " SELECT id, created_at, 'before' FROM records");
    for (const std::string& set : {row, change}) {
      if (!set.empty()) Run(absl::StrCat("UPDATE records SET ", set));
    }
    const std::string look =
        "SELECT coalesce((SELECT t::text FROM records t), '') ||"
        " coalesce((SELECT p::text FROM checkpoints p), '')";
    const std::string before = schema_->Value(look);
    const auto done = connection_->Execute(statement, parameters);
    EXPECT_TRUE(done.ok()) << statement.name << done.status();
    return schema_->Value(look) != before;
  }
  void Expect(const PostgresStatement& statement, const PostgresParameters& parameters,
              const std::string& row, const std::vector<std::string>& hits,
              const std::vector<std::string>& misses) {
    SCOPED_TRACE(statement.name);
    EXPECT_TRUE(Changes(statement, parameters, row, "")) << "as it is";
    for (const std::string& change : hits) {
      EXPECT_TRUE(Changes(statement, parameters, row, change)) << change;
    }
    for (const std::string& change : misses) {
      EXPECT_FALSE(Changes(statement, parameters, row, change)) << change;
    }
  }

  static PostgresArray Ids() { return Uuids("11111111-1111-1111-1111-111111111111"); }
  static PostgresArray Tokens() { return Uuids("22222222-2222-2222-2222-222222222222"); }
  static PostgresArray Uuids(const std::string& text) {
    PostgresArray array(PostgresType::kUuid);
    array.AppendUuid(*Uuid::Parse(text));
    return array;
  }
  static PostgresArray Bytes(PostgresType type, const std::string& bytes) {
    PostgresArray array(type);
    array.AppendBytes(bytes);
    return array;
  }
  static PostgresArray Minutes(int minutes) {
    PostgresArray array(PostgresType::kInterval);
    array.AppendInterval(absl::Minutes(minutes));
    return array;
  }
  static PostgresArray States(std::int16_t state) {
    PostgresArray array(PostgresType::kInt2);
    array.AppendInt2(state);
    return array;
  }
  // $1 to $3.
  static PostgresParameters AsRead() {
    PostgresArray attempts(PostgresType::kInt4);
    attempts.AppendInt4(2);
    PostgresParameters parameters;
    parameters.Add(Ids());
    parameters.Add(Tokens());
    parameters.Add(attempts);
    return parameters;
  }
  // Of start_afresh; of a key that has a time.
  static PostgresParameters Afresh(std::optional<absl::Time> made_at) {
    PostgresArray times(PostgresType::kTimestamptz);
    if (made_at) times.AppendTime(*made_at);
    PostgresArray no(PostgresType::kBool);
    no.AppendBool(false);
    const PostgresArray no_uuid(PostgresType::kUuid);
    const PostgresArray no_text(PostgresType::kText);
    const PostgresArray no_interval(PostgresType::kInterval);
    const std::vector<PostgresArray> of_insert = {
        Ids(),
        Bytes(PostgresType::kText, "n"),
        Bytes(PostgresType::kText, "s"),
        Bytes(PostgresType::kText, "o"),
        Bytes(PostgresType::kText, "k"),
        times,
        Minutes(24 * 60),
        Bytes(PostgresType::kBytea, "f"),
        no,
        Uuids("33333333-3333-3333-3333-333333333333"),
        no_uuid,
        Minutes(1),
        Minutes(60),
        no_text,
        no_text,
        no_text,
        no_text,
        no_text,
        no_interval,
        no_interval,
    };
    PostgresArray attempts(PostgresType::kInt4);
    attempts.AppendInt4(2);
    PostgresParameters parameters;
    for (const PostgresArray& column : of_insert) parameters.Add(column);
    parameters.Add(Tokens());
    parameters.Add(attempts);
    return parameters;
  }
  // $1 to $6.
  static PostgresParameters Held() {
    PostgresParameters parameters;
    parameters.Add(Ids());
    parameters.Add(Tokens());
    for (const char* const part : {"n", "s", "o", "k"}) {
      parameters.Add(Bytes(PostgresType::kText, part));
    }
    return parameters;
  }
  // For another record, which differs in one part each time.
  static std::vector<std::string> NotHeldAnd(std::vector<std::string> others) {
    for (const char* const change :
         {kOtherToken, "namespace = 'x'", "scope = 'x'", "operation = 'x'", "key = 'x'"}) {
      others.emplace_back(change);
    }
    return others;
  }

  SocketWatchdog watchdog_;
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresConnection> connection_;
  std::unique_ptr<PostgresStatements> statements_;
};

TEST_F(PostgresStatementsTest, PostgresPreparesEachStatement) {
  const std::string& clock_sql = schema_->options().clock_sql;
  for (const SqlSections& sections :
       {PostgresStatements::Sections(clock_sql), SingleRowStatements::Sections(clock_sql)}) {
    for (const std::string& name : sections.statement_names()) {
      EXPECT_EQ(connection_->TryPrepare(sections.Statement(name)), "") << name;
    }
  }
}

TEST_F(PostgresStatementsTest, StartAfreshHitsWhatWasReadAndIsForgottenStill) {
  const PostgresParameters opaque = Afresh(std::nullopt);
  Expect(statements_->start_afresh, opaque, kForgotten,
         {"state = 1", kCompleted, "tombstone_until = '2026-01-04'"},
         {kOtherToken, kOtherAttempt, "expires_at = '2100-01-01'", kUnknown,
          "state = 1, require_recovery = true", "tombstone_until = '2100-01-01'", "namespace = 'x'",
          "scope = 'x'", "operation = 'x'", "key = 'x'"});
  const absl::Time now = absl::Now();
  EXPECT_TRUE(Changes(statements_->start_afresh, Afresh(now), kForgotten, ""));
  EXPECT_FALSE(Changes(statements_->start_afresh, Afresh(now - absl::Hours(25)), kForgotten, ""))
      << "its window is over";
  EXPECT_FALSE(Changes(statements_->start_afresh, Afresh(now + absl::Hours(25)), kForgotten, ""))
      << "made too far ahead";
}

// Every column, so that nothing of the life before is left: one that a migration adds fails this
// test until start_afresh sets it.
TEST_F(PostgresStatementsTest, StartAfreshLeavesNothingOfTheLifeBefore) {
  ASSERT_TRUE(Changes(
      statements_->start_afresh, Afresh(std::nullopt),
      "state = 2, require_recovery = true, recovering = true, open_for_long = true,"
      " request_token = gen_random_uuid(), completed_at = '2026-01-02', reply = 'r',"
      " reply_digest = sha256('r'), reply_until = '2026-01-03', status_digest = sha256('s'),"
      " tombstone_until = '2026-01-04', expires_at = '2026-01-03', labels = '{\"a\": \"b\"}',"
      " parent_namespace = 'n', parent_scope = 's', parent_operation = 'o', parent_key = 'p',"
      " release_reason = 'why'",
      ""));
  const std::string afresh = schema_->Value(
      "SELECT (to_jsonb(t) - ARRAY['created_at', 'lease_until', 'expires_at'])::text"
      " FROM records t");
  Run("DELETE FROM records");
  PostgresParameters all;
  const std::vector<std::string> values = Afresh(std::nullopt).values();
  for (std::size_t i = 0; i < 20; ++i) all.AddBytes(values[i]);
  const auto inserted = connection_->Execute(statements_->insert, all);
  ASSERT_TRUE(inserted.ok()) << inserted.status();
  EXPECT_EQ(afresh, schema_->Value("SELECT (to_jsonb(t) - ARRAY['created_at', 'lease_until',"
                                   " 'expires_at'])::text FROM records t"));
  EXPECT_EQ(schema_->Value("SELECT checkpoint = '' AND record_created_at = '2026-01-01'"
                           " FROM checkpoints"),
            "t");
}

TEST_F(PostgresStatementsTest, GrantHitsWhatWasReadAndMayBeGrantedStill) {
  const auto parameters = [](std::int16_t state, absl::CivilDay lease_until) {
    PostgresArray leases_until(PostgresType::kTimestamptz);
    leases_until.AppendTime(absl::FromCivil(lease_until, absl::UTCTimeZone()));
    PostgresArray no_token(PostgresType::kUuid);
    no_token.AppendNull();
    PostgresArray no_retention(PostgresType::kInterval);
    no_retention.AppendNull();
    PostgresParameters all = AsRead();
    all.Add(States(state));
    all.Add(leases_until);
    all.Add(Uuids("33333333-3333-3333-3333-333333333333"));
    all.Add(no_token);
    all.Add(Minutes(1));
    all.Add(no_retention);
    return all;
  };
  const absl::CivilDay over(2026, 1, 2);
  const absl::CivilDay live(2099, 1, 1);
  Expect(statements_->grant, parameters(1, over), "", {"require_recovery = true"},
         {kOtherToken, kOtherAttempt, kReleased, kUnknown, "lease_until = '2026-01-03'", kLiveLease,
          kOver});
  Expect(statements_->grant, parameters(3, over), kReleased, {}, {kOver, "state = 1", kLiveLease});
  // Within its lease, or its pause, as it was read: only UNKNOWN has neither.
  EXPECT_FALSE(Changes(statements_->grant, parameters(1, live), "", kLiveLease));
  EXPECT_FALSE(Changes(statements_->grant, parameters(3, live), kReleased, kLiveLease));
  EXPECT_TRUE(Changes(statements_->grant, parameters(4, live), kUnknown, kLiveLease));
  EXPECT_TRUE(Changes(statements_->grant, parameters(4, over), kUnknown, kOver));
}

TEST_F(PostgresStatementsTest, RenewLeaseHitsWhatWasReadAndIsReservedStill) {
  PostgresParameters parameters = AsRead();
  parameters.Add(Minutes(1));
  Expect(statements_->renew_lease, parameters, "", {"require_recovery = true"},
         {kOtherToken, kOtherAttempt, kReleased, kUnknown, kCompleted, kLiveLease, kOver});
}

TEST_F(PostgresStatementsTest, MarkUnknownHitsWhatWasReadAndLapsedStill) {
  Expect(
      statements_->mark_unknown, AsRead(), "require_recovery = true", {kOver},
      {kOtherToken, kOtherAttempt, kReleased, kCompleted, kLiveLease, "require_recovery = false"});
}

TEST_F(PostgresStatementsTest, CompleteHitsWhatItsTokenHolds) {
  PostgresParameters parameters = Held();
  parameters.Add(Bytes(PostgresType::kBytea, "reply"));
  parameters.Add(Bytes(PostgresType::kBytea, std::string(32, 'd')));
  Expect(statements_->complete, parameters, "",
         {kUnknown, kLiveLease, kOtherAttempt, "require_recovery = true"},
         NotHeldAnd({kReleased, kCompleted, kOver,
                     "state = 4, watched = true, expires_at = "
                     "'2026-01-03'"}));
}

TEST_F(PostgresStatementsTest, CompleteOneHitsWhatItsTokenHolds) {
  PostgresParameters parameters;
  parameters.Add(*Uuid::Parse("11111111-1111-1111-1111-111111111111"));
  parameters.Add(*Uuid::Parse("22222222-2222-2222-2222-222222222222"));
  for (const std::string_view part : {"n", "s", "o", "k"}) parameters.AddBytes(part);
  parameters.AddBytes("reply");
  parameters.AddBytes(std::string(32, 'd'));
  Expect(statements_->complete_one, parameters, "",
         {kUnknown, kLiveLease, kOtherAttempt, "require_recovery = true"},
         NotHeldAnd({kReleased, kCompleted, kOver,
                     "state = 4, watched = true, expires_at = "
                     "'2026-01-03'"}));
}

TEST_F(PostgresStatementsTest, ReleaseHitsWhatItsTokenHolds) {
  PostgresParameters parameters = Held();
  parameters.Add(States(3));
  parameters.Add(Bytes(PostgresType::kText, "why"));
  parameters.Add(Minutes(0));
  Expect(statements_->release, parameters, "",
         {kLiveLease, kOtherAttempt, "require_recovery = true, expires_at = '2026-01-03'"},
         NotHeldAnd({kReleased, kUnknown, kCompleted, kOver}));
}

TEST_F(PostgresStatementsTest, ExtendHitsWhatItsTokenHolds) {
  PostgresParameters parameters = Held();
  parameters.Add(Minutes(1));
  const std::vector<std::string> misses =
      NotHeldAnd({kReleased, kUnknown, kCompleted, kOver,
                  "require_recovery = true, expires_at = '2026-01-03'"});
  Expect(statements_->extend, parameters, "", {kOtherAttempt, "require_recovery = true"}, misses);
  parameters.Add(Bytes(PostgresType::kBytea, "step"));
  Expect(statements_->extend_with_checkpoint, parameters, "",
         {kOtherAttempt, "require_recovery = true", kLiveLease}, misses);
}

TEST_F(PostgresStatementsTest, DropRepliesHitsWhatWasReadAndIsCompletedStill) {
  PostgresParameters parameters = AsRead();
  parameters.Add(Bytes(PostgresType::kBytea, "rest"));
  parameters.Add(Bytes(PostgresType::kBytea, std::string(32, 'd')));
  const Sha256Digest read = Sha256("r");
  parameters.Add(Bytes(PostgresType::kBytea, std::string(read.begin(), read.end())));
  Expect(statements_->drop_replies, parameters, kCompleted, {kOver},
         {kOtherToken, kOtherAttempt, "reply_until = '2100-01-01'",
          "reply = 'sealed anew', reply_digest = sha256('sealed anew')",
          "state = 3, completed_at = NULL, reply = NULL, reply_digest = NULL",
          "status_digest = sha256('r')"});
}

TEST_F(PostgresStatementsTest, ReadToDropFindsWhatIsCompletedAndNotDropped) {
  PostgresParameters parameters;
  parameters.Add(Ids());
  const auto found = [&] {
    const auto rows = connection_->Execute(statements_->read_to_drop, parameters);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? rows->rows() : -1;
  };
  Run(kRow);
  EXPECT_EQ(found(), 0);
  Run(absl::StrCat("UPDATE records SET ", kCompleted));
  EXPECT_EQ(found(), 1);
  Run("UPDATE records SET status_digest = sha256('r')");
  EXPECT_EQ(found(), 0);
}

}  // namespace
}  // namespace idempotency::internal

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
constexpr char kReservedAgain[] = "state = 1, watched = false";
constexpr char kReleasedAgain[] = "state = 3, watched = false";
constexpr char kOtherId[] = "id = gen_random_uuid()";
constexpr char kDamaged[] = "labels = '[1]'";
// What a purge requires of a row: one fingerprint, of no bytes.
constexpr char kReadable[] = "fingerprints = '\\x0000000100'";

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
  // $1 to $5 of the statements of administrators.
  static PostgresParameters AdminNote(bool forced) {
    PostgresParameters parameters;
    parameters.AddBytes("alice");
    parameters.AddBytes("ticket 42");
    parameters.AddBytes("inner");
    parameters.AddBytes("outer");
    parameters.AddBool(forced);
    return parameters;
  }
  static std::string Readable(const std::string& row) { return absl::StrCat(kReadable, ", ", row); }
  // Of one record: id, token, attempt and this state.
  static PostgresParameters OneAsRead(int state) {
    PostgresParameters parameters;
    parameters.Add(*Uuid::Parse("11111111-1111-1111-1111-111111111111"));
    parameters.Add(*Uuid::Parse("22222222-2222-2222-2222-222222222222"));
    parameters.Add(2);
    parameters.Add(state);
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
  static std::vector<std::string> With(std::vector<std::string> changes,
                                       const std::vector<std::string>& others) {
    changes.insert(changes.end(), others.begin(), others.end());
    return changes;
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
  for (SqlSections sections :
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

TEST_F(PostgresStatementsTest, ResolveHitsWhatWasReadAndMayBeSettledStill) {
  for (const int settled : {2, 3}) {
    const auto parameters = [settled](bool forced, int state) {
      PostgresParameters all = AdminNote(forced);
      all.Append(OneAsRead(state));
      all.Add(settled);
      all.Add(*Uuid::Parse("33333333-3333-3333-3333-333333333333"));
      all.AddInterval(absl::Hours(1));
      all.AddBytes("reply");
      all.AddBytes(std::string(32, 'd'));
      return all;
    };
    const std::vector<std::string> others = {kOtherId,   kOtherToken, kOtherAttempt, kReleased,
                                             kCompleted, kUnknown,    kOver};
    Expect(statements_->resolve, parameters(/*forced=*/true, 1), "",
           {kLiveLease, "require_recovery = true"}, others);
    Expect(statements_->resolve, parameters(/*forced=*/false, 1), "",
           {"require_recovery = true", "require_recovery = true, expires_at = '2026-01-03'"},
           With(others, {kLiveLease}));
    Expect(statements_->resolve, parameters(/*forced=*/false, 4), kUnknown, {kLiveLease, kOver},
           {kOtherToken, kOtherAttempt, kReservedAgain, kReleasedAgain});
    // Settled already, as it was read.
    EXPECT_FALSE(Changes(statements_->resolve, parameters(/*forced=*/true, 2), kCompleted, ""));
    EXPECT_FALSE(Changes(statements_->resolve, parameters(/*forced=*/true, 3), kReleased, ""));
  }
}

TEST_F(PostgresStatementsTest, PurgeOneHitsWhatWasRead) {
  for (const int tombstone_hours : {0, 1}) {
    const auto parameters = [tombstone_hours](bool forced, int state) {
      PostgresParameters all = AdminNote(forced);
      all.AddInterval(absl::Hours(tombstone_hours));
      all.Append(OneAsRead(state));
      return all;
    };
    const std::vector<std::string> others = {kOtherId,  kOtherToken, kOtherAttempt,
                                             kReleased, kCompleted,  kUnknown};
    Expect(statements_->purge_one, parameters(/*forced=*/true, 1), kReadable,
           {kLiveLease, kOver, kDamaged, "require_recovery = true"}, others);
    Expect(statements_->purge_one, parameters(/*forced=*/false, 1), kReadable, {kOver, kDamaged},
           With(others, {kLiveLease, "require_recovery = true"}));
    Expect(statements_->purge_one, parameters(/*forced=*/false, 2), Readable(kCompleted), {kOver},
           {kOtherToken, kOtherAttempt});
    Expect(statements_->purge_one, parameters(/*forced=*/true, 4), Readable(kUnknown), {kOver},
           {kOtherToken, kOtherAttempt, kReservedAgain, kReleasedAgain});
    EXPECT_FALSE(
        Changes(statements_->purge_one, parameters(/*forced=*/false, 4), Readable(kUnknown), ""));
  }
}

TEST_F(PostgresStatementsTest, PurgeScopeHitsTheScopeAlone) {
  for (const int tombstone_hours : {0, 1}) {
    const auto parameters = [tombstone_hours](bool forced, const RecordId& after) {
      PostgresParameters all = AdminNote(forced);
      all.AddInterval(absl::Hours(tombstone_hours));
      all.AddBytes("n");
      all.AddBytes("s");
      all.Add(after);
      all.Add(10);
      return all;
    };
    const std::vector<std::string> others = {"namespace = 'm'", "namespace = 'o'", "scope = 'r'",
                                             "scope = 't'", kDamaged};
    Expect(statements_->purge_scope, parameters(/*forced=*/true, RecordId()), kReadable,
           {kLiveLease, kUnknown, "require_recovery = true"}, others);
    Expect(statements_->purge_scope, parameters(/*forced=*/false, RecordId()), kReadable,
           {kReleased, kCompleted, kOver, kOtherToken},
           With(others, {kLiveLease, kUnknown, "require_recovery = true"}));
    EXPECT_FALSE(
        Changes(statements_->purge_scope,
                parameters(/*forced=*/true, *Uuid::Parse("11111111-1111-1111-1111-111111111111")),
                kReadable, ""));
  }
}

TEST_F(PostgresStatementsTest, PurgeNamespaceHitsWhatIsOlder) {
  for (const int tombstone_hours : {0, 1}) {
    const auto parameters = [tombstone_hours](bool forced, absl::Time created_before) {
      PostgresParameters all = AdminNote(forced);
      all.AddInterval(absl::Hours(tombstone_hours));
      all.AddBytes("n");
      all.AddBytes("");
      all.Add(RecordId());
      all.Add(10);
      all.Add(created_before);
      return all;
    };
    const absl::Time created_at = absl::FromCivil(absl::CivilDay(2026, 1, 1), absl::UTCTimeZone());
    const absl::Time later = created_at + absl::Hours(1);
    const std::vector<std::string> others = {"namespace = 'm'", "namespace = 'o'",
                                             "created_at = '2026-01-01 01:00:00+00'", kDamaged};
    Expect(statements_->purge_namespace, parameters(/*forced=*/true, later), kReadable,
           {kLiveLease, kUnknown, "require_recovery = true", "scope = 'x'"}, others);
    Expect(statements_->purge_namespace, parameters(/*forced=*/false, later), kReadable,
           {kReleased, kCompleted, kOver, kOtherToken},
           With(others, {kLiveLease, kUnknown, "require_recovery = true"}));
  }
}

TEST_F(PostgresStatementsTest, EndUnknownHitsWhatIsUnknownForLong) {
  PostgresParameters parameters;
  parameters.AddBytes("n");
  parameters.Add(RecordId());
  parameters.Add(10);
  parameters.AddInterval(absl::Hours(1));
  Expect(statements_->end_unknown, parameters, kUnknown,
         {kOver, kOtherToken, kOtherAttempt, "require_recovery = true", "scope = 'x'",
          "lease_until = clock_timestamp() - interval '61 minutes'"},
         {kReservedAgain, kReleasedAgain, kLiveLease, "namespace = 'm'", "namespace = 'o'",
          "lease_until = clock_timestamp() - interval '59 minutes'",
          // As the index has it still.
          "state = 1, watched = true"});
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

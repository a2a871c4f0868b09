// A statement whose results are binary returns the same values as in text form, each of the type
// that it is read as.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "core/absl_view.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/fingerprint.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/batched/insert_parameters.h"
#include "server/store/postgres/connection/connection.h"
#include "server/store/postgres/connection/parameters.h"
#include "server/store/postgres/records/operation_parameters.h"
#include "server/store/postgres/records/record.h"
#include "server/store/postgres/statements/batched.h"
#include "server/store/postgres/statements/single_row.h"
#include "server/store/record_operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

// Column types: b bool, i integer, t timestamptz, u uuid, x text, y bytea.
constexpr char kRecordColumns[] = "uxxxxibbiuuttttyyttyxt";

std::string ValueOf(const PostgresResult& result, int row, int column, char type) {
  if (result.IsNull(row, column)) return "NULL";
  switch (type) {
    case 'b':
      return absl::StrCat(result.Bool(row, column));
    case 'i':
      return absl::StrCat(result.Integer(row, column));
    case 't': {
      const std::optional<absl::Time> time = result.TimeIfValid(row, column);
      return time ? absl::FormatTime(*time, absl::UTCTimeZone()) : "no time";
    }
    case 'u':
      return result.GetUuid(row, column).ToString();
    case 'x':
      return result.Text(row, column);
    default:
      return absl::StrCat(absl::BytesToHexString(result.Bytea(row, column)), " of ",
                          result.ByteaSize(row, column));
  }
}

std::vector<std::string> ValuesOf(const PostgresResult& result, std::string_view types) {
  std::vector<std::string> values;
  for (int row = 0; row < result.rows(); ++row) {
    for (std::size_t column = 0; column < types.size(); ++column) {
      values.push_back(ValueOf(result, row, static_cast<int>(column), types[column]));
    }
  }
  return values;
}

class PostgresResultFormatsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // A clock that stands, so that a repeated statement computes the same times.
    auto schema =
        testing::PostgresSchema::Create(testing::TestPostgresUrl(), {true, /*test_clock=*/true});
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    auto connection = PostgresConnection::Open(schema_->options(), watchdog_);
    ASSERT_TRUE(connection.ok()) << connection.status();
    connection_ = *std::move(connection);
  }

  void Run(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << sql << done.status();
  }

  // Executes it in both forms, each time on records that `prepare` alone made.
  void Compare(const PostgresStatement& statement, const PostgresParameters& parameters,
               std::string_view types, const std::string& prepare) {
    SCOPED_TRACE(statement.name);
    compared_.insert(statement.name);
    ASSERT_EQ(statement.results, ResultFormat::kBinary);
    PostgresStatement in_text = statement;
    in_text.results = ResultFormat::kText;
    std::vector<std::string> values[2];
    for (const bool binary : {false, true}) {
      Run("DELETE FROM checkpoints; DELETE FROM records");
      Run(prepare);
      const auto result = connection_->Execute(binary ? statement : in_text, parameters);
      ASSERT_TRUE(result.ok()) << result.status();
      EXPECT_GT(result->rows(), 0);
      EXPECT_TRUE(result->IsNull(0, static_cast<int>(types.size()))) << "a column without a type";
      values[binary ? 1 : 0] = ValuesOf(*result, types);
      EXPECT_FALSE(result->misread());
    }
    EXPECT_EQ(absl::StrJoin(values[0], "\n"), absl::StrJoin(values[1], "\n"));
  }
  void ExpectAllCompared(const std::vector<PostgresStatement>& statements) {
    for (const PostgresStatement& statement : statements) {
      if (statement.results == ResultFormat::kText) continue;
      EXPECT_EQ(compared_.count(statement.name), 1u) << statement.name;
    }
  }

  // Every column has a value, except for the reply's.
  std::string Row(const std::string& id, std::string_view changes = "") const {
    return absl::StrCat(
        "INSERT INTO records (id, namespace, scope, operation, key, state, require_recovery,"
        " recovering, attempt, token, request_token, created_at, lease_until, expires_at,"
        " fingerprints, tombstone_until, release_reason, labels,"
        " parent_namespace, parent_scope, parent_operation, parent_key)"
        " SELECT '",
        id, "', 'n', 's', 'o', E'k\\u00e9', 1, false, true, 70000, '", kToken, "', '", kOther,
        "', ", now(), " - interval '1 hour', ", now(), " - interval '1 minute', ", now(),
        " + interval '1 day', '\\x",
        absl::BytesToHexString(EncodeFingerprints({{1, std::string(32, '\xfa')}})), "', ", now(),
        " + interval '2 days', 'why', '{\"a\": \"b\"}', 'n', 's', 'o', 'p';",
        "INSERT INTO checkpoints (id, record_created_at, checkpoint)"
        " SELECT id, created_at, '\\x00ff' FROM records;",
        changes.empty() ? "" : absl::StrCat("UPDATE records SET ", AbslView(changes)));
  }
  std::string now() const { return schema_->options().clock_sql; }
  std::string Completed() const {
    return absl::StrCat("state = 2, completed_at = ", now(),
                        ", reply = '\\x00ff5c78', reply_digest = sha256('r'),"
                        " status_digest = sha256('s'), reply_until = ",
                        now());
  }

  static PostgresArray Uuids(std::string_view text) {
    PostgresArray array(PostgresType::kUuid);
    array.AppendUuid(*Uuid::Parse(text));
    return array;
  }
  static PostgresArray Bytes(PostgresType type, std::string_view bytes) {
    PostgresArray array(type);
    array.AppendBytes(bytes);
    return array;
  }
  static PostgresArray Minute() {
    PostgresArray array(PostgresType::kInterval);
    array.AppendInterval(absl::Minutes(1));
    return array;
  }
  static PostgresArray Number(std::int16_t number) {
    PostgresArray array(PostgresType::kInt2);
    array.AppendInt2(number);
    return array;
  }
  static PostgresParameters Ids() {
    PostgresParameters parameters;
    parameters.Add(Uuids(kId));
    return parameters;
  }
  // $1 to $6, as arrays and for one.
  static PostgresParameters Held() {
    PostgresParameters parameters = Ids();
    parameters.Add(Uuids(kToken));
    for (const char* const part : {"n", "s", "o", "k\xc3\xa9"}) {
      parameters.Add(Bytes(PostgresType::kText, part));
    }
    return parameters;
  }
  static PostgresParameters HeldOne() {
    PostgresParameters parameters;
    parameters.Add(*Uuid::Parse(kId));
    parameters.Add(*Uuid::Parse(kToken));
    for (const char* const part : {"n", "s", "o", "k\xc3\xa9"}) parameters.AddBytes(part);
    return parameters;
  }
  static PostgresParameters AsRead() {
    PostgresArray attempts(PostgresType::kInt4);
    attempts.AppendInt4(kAttempt);
    PostgresParameters parameters = Ids();
    parameters.Add(Uuids(kToken));
    parameters.Add(attempts);
    return parameters;
  }
  // Of one row, which is reserved, and of which all but its lease's end is fixed.
  PostgresParameters GuardedAt(absl::Time lease_until, absl::Time expires_at) const {
    PostgresParameters parameters;
    parameters.Add(*Uuid::Parse(kId));
    parameters.Add(*Uuid::Parse(kToken));
    parameters.Add(kAttempt);
    parameters.AddInt2(1);
    parameters.Add(lease_until);
    parameters.Add(expires_at);
    return parameters;
  }
  static ReserveOp Fresh() {
    ReserveOp op;
    op.key = {"n", "s", "o", "fresh"};
    op.id = *Uuid::Parse(kOther);
    op.fingerprints = {{1, std::string(32, 'a')}};
    op.lease = absl::Minutes(1);
    op.retention = absl::Hours(1);
    return op;
  }
  static PostgresParameters InsertMany() {
    const ReserveOp op = Fresh();
    return InsertManyParameters({&op}, Uuids(kToken));
  }

  static constexpr char kId[] = "11111111-1111-1111-1111-111111111111";
  static constexpr char kToken[] = "22222222-2222-2222-2222-222222222222";
  static constexpr char kOther[] = "f3333333-3333-4333-b333-3333333333f3";
  static constexpr std::int32_t kAttempt = 70000;

  SocketWatchdog watchdog_;
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresConnection> connection_;
  std::set<std::string> compared_;
};

TEST_F(PostgresResultFormatsTest, OfTheStatementsForBatches) {
  const PostgresStatements all(now());
  const auto with = [](PostgresParameters parameters, auto... values) {
    (parameters.Add(std::move(values)), ...);
    return parameters;
  };
  const std::string none = "SELECT 1";
  const std::string inserted = "utttt";
  const std::string reply = "yyxb";
  Compare(all.insert, InsertMany(), inserted, none);
  Compare(all.insert_relaxed, InsertMany(), inserted + "b", none);
  const PostgresParameters one = InsertOneParameters(Fresh(), Uuid::Random());
  Compare(all.insert_one, one, inserted, none);
  Compare(all.insert_one_relaxed, one, inserted + "b", none);
  PostgresParameters up_to = Ids();
  up_to.AddInt8(1000);
  for (const std::string& state : {std::string(), Completed()}) {
    for (const auto* const statement : {&all.read_to_reserve, &all.read_large_to_reserve}) {
      Compare(*statement, up_to, kRecordColumns + reply, Row(kId, state));
    }
    Compare(all.read_to_settle, Ids(), kRecordColumns + reply, Row(kId, state));
    Compare(all.read_whole, Ids(), kRecordColumns + reply + "xxxx", Row(kId, state));
    Compare(all.read_whole_confirmed, Ids(), kRecordColumns + reply + "xxxxx", Row(kId, state));
  }
  Compare(all.read_clock, {}, "t", none);
  const auto time = [](absl::Time at) {
    PostgresArray array(PostgresType::kTimestamptz);
    array.AppendTime(at);
    return array;
  };
  const absl::Time lease_until = schema_->Now() - absl::Minutes(1);
  PostgresArray attempts(PostgresType::kInt4);
  attempts.AppendInt4(kAttempt);
  const ReserveOp op = [] {
    ReserveOp same = Fresh();
    same.id = *Uuid::Parse(kId);
    same.key.key = "k\xc3\xa9";
    return same;
  }();
  Compare(all.start_afresh,
          with(InsertManyParameters({&op}, Uuids(kOther)), Uuids(kToken), attempts), inserted,
          Row(kId, absl::StrCat("state = 3, expires_at = ", now(), " - interval '30 seconds',",
                                " tombstone_until = NULL")));
  Compare(all.grant,
          with(AsRead(), Number(1), time(lease_until), Uuids(kOther), Uuids(kOther), Minute(),
               Minute()),
          "uttt", Row(kId));
  Compare(all.renew_lease, with(AsRead(), Minute()), "uttt", Row(kId));
  Compare(all.mark_unknown, AsRead(), "ut", Row(kId, "require_recovery = true"));
  const PostgresParameters completed = with(Held(), Bytes(PostgresType::kBytea, "reply"),
                                            Bytes(PostgresType::kBytea, std::string(32, 'd')));
  Compare(all.complete, completed, "uttt", Row(kId));
  PostgresParameters completed_one = HeldOne();
  completed_one.AddBytes("reply");
  completed_one.AddBytes(std::string(32, 'd'));
  Compare(all.complete_one, completed_one, "uttt", Row(kId));
  PostgresParameters both = completed;
  both.Append(InsertMany());
  Compare(all.complete_and_insert, both, "utttutttt", Row(kId));
  Compare(all.release, with(Held(), Number(3), Bytes(PostgresType::kText, "why"), Minute()), "u",
          Row(kId));
  Compare(all.extend, with(Held(), Minute()), "utt", Row(kId));
  Compare(all.extend_with_checkpoint, with(Held(), Minute(), Bytes(PostgresType::kBytea, "step")),
          "utt", Row(kId));
  compared_.insert(all.find_locked.name);  // below: nothing is locked here
  ExpectAllCompared(all.all());
}

TEST_F(PostgresResultFormatsTest, OfTheRowsThatOthersHaveLocked) {
  const PostgresStatements all(now());
  Run(Row(kId));
  auto other = PostgresConnection::Open(schema_->options(), watchdog_);
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE((*other)->Begin().ok());
  ASSERT_TRUE((*other)->ExecuteScript("SELECT FROM records FOR UPDATE").ok());
  const auto locked = connection_->Execute(all.find_locked, Ids());
  ASSERT_TRUE(locked.ok()) << locked.status();
  EXPECT_EQ(ValuesOf(*locked, "u"), std::vector<std::string>{kId});
}

TEST_F(PostgresResultFormatsTest, OfTheStatementsForSingleRows) {
  const SingleRowStatements all(now());
  const std::string none = "SELECT 1";
  const absl::Time now = schema_->Now();
  const absl::Time lease_until = now - absl::Minutes(1);
  const absl::Time expires_at = now + absl::Hours(24);
  Compare(all.read_clock, {}, "t", none);
  PostgresParameters up_to;
  up_to.Add(*Uuid::Parse(kId));
  up_to.AddInt8(1000);
  for (const std::string& state : {std::string(), Completed()}) {
    for (const auto* const statement : {&all.read, &all.read_confirmed}) {
      Compare(*statement, up_to, absl::StrCat(kRecordColumns, "yyxbxxxx"), Row(kId, state));
    }
    PostgresParameters id;
    id.Add(*Uuid::Parse(kId));
    Compare(all.read_to_settle, id, absl::StrCat(kRecordColumns, "yyxb"), Row(kId, state));
  }
  PostgresParameters id;
  id.Add(*Uuid::Parse(kId));
  Compare(all.read_checkpoint, id, "ty", Row(kId));
  PostgresParameters fresh;
  fresh.Add(*Uuid::Parse(kId));
  for (const char* const part : {"n", "s", "o", "k\xc3\xa9"}) fresh.AddBytes(part);
  fresh.AddBool(false);
  fresh.Add(*Uuid::Parse(kOther));
  fresh.Add(*Uuid::Parse(kOther));
  for (const absl::Time at : {now, now, expires_at}) fresh.Add(at);
  fresh.AddBytes("f");
  for (const char* const part : {"n", "s", "o", "p"}) fresh.AddBytes(part);
  fresh.AddBytes("{}");
  for (const absl::Time at : {expires_at, expires_at}) fresh.Add(at);
  Compare(all.insert, fresh, "u", none);
  PostgresParameters afresh = fresh;
  afresh.Add(*Uuid::Parse(kToken));
  afresh.Add(kAttempt);
  afresh.AddInt2(1);
  afresh.Add(expires_at);
  afresh.Add(now + absl::Hours(48));
  Compare(all.start_afresh, afresh, "u", Row(kId));
  PostgresParameters grant = GuardedAt(lease_until, expires_at);
  grant.Add(*Uuid::Parse(kOther));
  grant.Add(*Uuid::Parse(kOther));
  grant.AddBool(true);
  for (const absl::Time at : {now, expires_at, expires_at}) grant.Add(at);
  Compare(all.grant, grant, "u", Row(kId));
  PostgresParameters renewal = GuardedAt(lease_until, expires_at);
  renewal.Add(now);
  Compare(all.renew_lease, renewal, "u", Row(kId));
  Compare(all.mark_unknown, GuardedAt(lease_until, expires_at), "u",
          Row(kId, "require_recovery = true"));
  PostgresParameters completed = HeldOne();
  completed.AddBytes("reply");
  completed.AddBytes(std::string(32, 'd'));
  completed.Add(now);
  completed.Add(now);
  Compare(all.complete, completed, "tt", Row(kId));
  PostgresParameters release = HeldOne();
  release.AddInt2(3);
  release.AddBool(false);
  release.AddBytes("why");
  release.Add(now);
  release.Add(now);
  Compare(all.release, release, "u", Row(kId));
  PostgresParameters extension = HeldOne();
  extension.Add(now);
  extension.Add(now);
  Compare(all.extend, extension, "tt", Row(kId));
  ExpectAllCompared(all.all());
}

TEST_F(PostgresResultFormatsTest, OfEveryValueOfAType) {
  const auto compare = [this](const std::string& type, const std::vector<std::string>& literals,
                              char read_as) {
    std::string sql = "SELECT v FROM (VALUES (1, NULL::" + type + ")";
    for (const std::string& literal : literals) {
      absl::StrAppend(&sql, ", (1, '", literal, "'::", type, ")");
    }
    absl::StrAppend(&sql, ") x (n, v)");
    Compare({absl::StrCat("values_", type), sql, ResultFormat::kBinary}, {},
            std::string(1, read_as), "SELECT 1");
  };
  compare("smallint", {"0", "1", "-1", "32767", "-32768", "258"}, 'i');
  compare("integer", {"0", "1", "-1", "2147483647", "-2147483648", "65536"}, 'i');
  compare("bigint", {"0", "-1", "9223372036854775807", "-9223372036854775808"}, 'i');
  compare("boolean", {"true", "false"}, 'b');
  compare("uuid", {"00000000-0000-0000-0000-000000000000", kOther}, 'u');
  compare("bytea", {"", "\\x00", "\\x0001ff5c", "text"}, 'y');
  compare("text", {"", "t", "k\xc3\xa9", "\\x00"}, 'x');
  compare("varchar", {"", "t"}, 'x');
  compare("timestamptz",
          {"2000-01-01", "1970-01-01", "1999-12-31 23:59:59.999999", "2026-11-21 14:05:02.123456",
           "9999-12-31 23:59:59.999999", "infinity", "-infinity", "294276-12-31"},
          't');
}

// A column whose type was changed by hand.
TEST_F(PostgresResultFormatsTest, AValueOfAnotherTypeIsNotRead) {
  for (const std::string type : {"bigint", "uuid", "text", "bytea", "boolean", "timestamptz",
                                 "timestamp", "numeric", "real"}) {
    for (const char read_as : {'b', 'i', 't', 'u', 'x', 'y'}) {
      const bool fits = absl::StrCat(type).find(read_as == 'b'   ? "boolean"
                                                : read_as == 'i' ? "bigint"
                                                : read_as == 't' ? "timestamptz"
                                                : read_as == 'u' ? "uuid"
                                                : read_as == 'x' ? "text"
                                                                 : "bytea") == 0;
      const std::string value = type == "uuid"                    ? kOther
                                : type.rfind("timestamp", 0) == 0 ? "2026-01-02"
                                                                  : "1";
      const auto result = connection_->Execute(
          {absl::StrCat("one_", type), absl::StrCat("SELECT '", value, "'::", type),
           ResultFormat::kBinary},
          {});
      ASSERT_TRUE(result.ok()) << result.status();
      const std::string read = ValueOf(*result, 0, 0, read_as);
      EXPECT_EQ(result->misread(), !fits) << type << " as " << read_as << ": " << read;
    }
  }
}

TEST_F(PostgresResultFormatsTest, ARecordWithAColumnOfAnotherTypeIsDamaged) {
  const PostgresStatements all(now());
  const auto read = [&]() -> absl::StatusOr<PostgresRecord> {
    PostgresParameters parameters = Ids();
    parameters.AddInt8(1000);
    // A new connection: one that has the statement refuses another type.
    auto connection = PostgresConnection::Open(schema_->options(), watchdog_);
    if (!connection.ok()) return connection.status();
    const auto result = (*connection)->Execute(all.read_to_reserve, parameters);
    if (!result.ok()) return result.status();
    return ReadRecord(*result, 0);
  };
  Run(Row(kId));
  ASSERT_TRUE(read().ok()) << read().status();
  Run("ALTER TABLE records ALTER attempt TYPE numeric");
  EXPECT_EQ(ReasonOf(read().status()), Reason::kRecordDamaged);
}

}  // namespace
}  // namespace idempotency::internal

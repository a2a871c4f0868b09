// The behaviour of Postgres alone; tests/conformance tests the table of verdicts.
#include "server/store/postgres/postgres_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "core/retry_delays.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/record_key.h"
#include "server/store/postgres/schema/migrator.h"
#include "server/store/postgres/statements/batched.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ReserveOp OpFor(const std::string& key) {
  ReserveOp op;
  op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge", key};
  op.id = RecordIdFor(op.key);
  op.fingerprints = {{1, std::string(32, 'a')}};
  op.request_token = Uuid::Random();
  op.on_lease_expiry = LeaseExpiry::kTakeOver;
  return op;
}

EncodedReply ReplyWith(const std::string& body) {
  v1::Reply reply;
  reply.set_body(body);
  return EncodeReply(reply);
}

CompleteOp CompletionOf(const ReserveOp& op, const absl::StatusOr<Verdict>& verdict) {
  const auto* const reserved = verdict.ok() ? std::get_if<Reserved>(&*verdict) : nullptr;
  return {op.key, op.id, reserved == nullptr ? Uuid() : reserved->token,
          ReplyWith(std::string(256, 'r'))};
}

class PostgresStoreTest : public ::testing::Test {
 protected:
  void Open(const std::string& url) {
    auto schema = testing::PostgresSchema::Create(url);
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    PostgresOptions options = schema_->options();
    options.statements = statements_;
    options.statement_timeout = statement_timeout_;
    options.lock_timeout = lock_timeout_;
    options.locked_pause = locked_pause_;
    options.reply_grace = absl::Milliseconds(200);
    options.max_backoff = absl::Milliseconds(100);
    auto store = PostgresStore::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void SetUp() override { Open(testing::TestPostgresUrl()); }

  absl::StatusOr<Verdict> Reserve(const ReserveOp& op) { return store_->Reserve({&op, 1}).at(0); }
  absl::StatusOr<Completion> Complete(const CompleteOp& op) {
    return store_->Complete({&op, 1}).at(0);
  }
  // Until a query answers `value`, or 20 seconds have passed.
  bool Await(const std::string& sql, const std::string& value) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (schema_->Value(sql) != value) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  PostgresStatementMode statements_ = PostgresStatementMode::kBatched;
  absl::Duration statement_timeout_ = absl::Seconds(30);
  absl::Duration lock_timeout_ = absl::Seconds(30);
  absl::Duration locked_pause_ = absl::Milliseconds(1);
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;
};

TEST_F(PostgresStoreTest, EveryCompletionIsHot) {
  constexpr int kRecords = 3000;
  constexpr int kBatch = 100;
  std::vector<CompleteOp> completions;
  for (int done = 0; done < kRecords; done += kBatch) {
    std::vector<ReserveOp> ops;
    for (int i = 0; i < kBatch; ++i) {
      // Both kinds of id.
      ops.push_back(OpFor(i % 2 == 0 ? Uuid::TimeOrdered(absl::Now()).ToString()
                                     : absl::StrCat("key-", done + i)));
      if (i % 10 == 0) ops.back().reply_retention = absl::Hours(1);
      if (i % 10 == 0) ops.back().tombstone = absl::Hours(1);
    }
    const SharedAnswers answers = store_->CompleteAndReserve(completions, ops);
    for (const auto& completion : answers.completions) ASSERT_TRUE(completion.ok());
    completions.clear();
    for (int i = 0; i < kBatch; ++i) {
      completions.push_back(CompletionOf(ops[i], answers.verdicts[i]));
    }
  }
  for (const auto& completion : store_->Complete(completions)) ASSERT_TRUE(completion.ok());
  // Connections write their counts when they end.
  store_.reset();
  const std::string counts = absl::StrCat(
      "SELECT n_tup_upd || '/' || n_tup_hot_upd FROM pg_stat_all_tables"
      " WHERE relname = 'records' AND schemaname = '",
      schema_->options().schema, "'");
  EXPECT_TRUE(Await(counts, "3000/3000")) << schema_->Value(counts);
}

// The plans of a connection as the store opens it: each statement reads only the rows that it
// names.
class PostgresPlanTest : public PostgresStoreTest {
 protected:
  void SetUp() override {
    PostgresStoreTest::SetUp();
    for (const char* const table : {"records", "checkpoints"}) {
      ASSERT_TRUE(
          schema_->Execute(absl::StrCat("ALTER TABLE ", table, " SET (autovacuum_enabled = false)"))
              .ok());
    }
  }
  void Fill() {
    ASSERT_TRUE(schema_
                    ->Execute("INSERT INTO records (id, namespace, scope, operation, key, state,"
                              " require_recovery, attempt, token, created_at, lease_until,"
                              " expires_at, fingerprints)"
                              " SELECT gen_random_uuid(), 'n', 's', 'o', i::text, 1, false, 1,"
                              " gen_random_uuid(), now(), now(), now(), 'f'"
                              " FROM generate_series(1, 50000) i")
                    .ok());
  }
  void ExpectIndexLookups() {
    SocketWatchdog watchdog;
    auto connection = PostgresConnection::Open(schema_->options(), watchdog);
    ASSERT_TRUE(connection.ok());
    const PostgresStatements statements(schema_->options().clock_sql);
    const std::vector<const PostgresStatement*> inserts = {
        &statements.insert, &statements.insert_relaxed, &statements.insert_one,
        &statements.insert_one_relaxed, &statements.probe_commit};
    for (const PostgresStatement* const statement : statements.OverTables()) {
      const std::string plan = PlanOf(**connection, *statement);
      for (const char* const costly : {"Seq Scan", "Hash", "Merge", "Bitmap"}) {
        EXPECT_THAT(plan, Not(HasSubstr(costly))) << statement->name;
      }
      if (std::find(inserts.begin(), inserts.end(), statement) == inserts.end()) {
        EXPECT_THAT(plan, HasSubstr("Index")) << statement->name;
        // A scan of a whole index has no condition.
        EXPECT_THAT(plan, HasSubstr("Index Cond")) << statement->name;
      }
    }
    ExpectWalks(**connection, statements);
  }
  // Pages of administrators are ranges of one index, in its order.
  static void ExpectWalks(PostgresConnection& connection, const PostgresStatements& statements) {
    const std::pair<const PostgresStatement*, const char*> walks[] = {
        {&statements.list_namespace, "records_by_scope"},
        {&statements.list_scope, "records_by_scope"},
        {&statements.list_unknown, "records_unknown"},
        {&statements.list_children, "records_by_parent"},
        {&statements.purge_scope, "records_by_scope"},
        {&statements.purge_namespace, "records_by_scope"},
        {&statements.count_scope, "records_by_scope"},
        {&statements.count_namespace, "records_by_scope"},
        {&statements.read_contents, "records_by_scope"},
        {&statements.read_audit, "audit_log_by_namespace"},
    };
    for (const auto& [statement, index] : walks) {
      const std::string plan = PlanOf(connection, *statement);
      // Below the limit there is the scan alone.
      const std::size_t limit = plan.find("Limit");
      const std::size_t scan = plan.find(absl::StrCat("Index Scan using ", index, " on "));
      ASSERT_NE(limit, std::string::npos) << statement->name << plan;
      ASSERT_NE(scan, std::string::npos) << statement->name << plan;
      EXPECT_THAT(plan.substr(limit, scan - limit), Not(HasSubstr("Sort")))
          << statement->name << plan;
      EXPECT_THAT(plan.substr(scan, plan.find('\n', plan.find('\n', scan) + 1) - scan),
                  HasSubstr("Index Cond"))
          << statement->name << plan;
    }
  }

 private:
  static std::string PlanOf(PostgresConnection& connection, const PostgresStatement& statement) {
    EXPECT_EQ(connection.TryPrepare(statement), "") << statement.name;
    const auto count =
        connection.ExecuteScript(absl::StrCat("SELECT coalesce(array_length(parameter_types, 1), 0)"
                                              " FROM pg_prepared_statements WHERE name = '",
                                              statement.name, "'"));
    EXPECT_TRUE(count.ok());
    std::string nulls;
    for (int i = 0; i < count->Integer(0, 0); ++i) nulls += i == 0 ? "(NULL" : ",NULL";
    if (!nulls.empty()) nulls += ")";
    const auto plan =
        connection.ExecuteScript(absl::StrCat("EXPLAIN EXECUTE \"", statement.name, "\"", nulls));
    EXPECT_TRUE(plan.ok()) << statement.name << plan.status();
    std::string text;
    for (int row = 0; plan.ok() && row < plan->rows(); ++row) text += plan->Text(row, 0) + "\n";
    return text;
  }
};

TEST_F(PostgresPlanTest, OnATableThatWasNeverAnalysed) {
  ExpectIndexLookups();
  Fill();
  ExpectIndexLookups();
}

// The worst case for the planner.
TEST_F(PostgresPlanTest, OnATableThatWasAnalysedWhileEmpty) {
  ASSERT_TRUE(schema_->Execute("ANALYZE records; ANALYZE checkpoints").ok());
  ExpectIndexLookups();
  Fill();
  ExpectIndexLookups();
}

TEST_F(PostgresPlanTest, OnATableOfItsRealSize) {
  Fill();
  ASSERT_TRUE(schema_->Execute("ANALYZE records; ANALYZE checkpoints").ok());
  ExpectIndexLookups();
}

// A purge waits for no row, and an administrator for a locked one as long as any caller.
TEST_F(PostgresStoreTest, AdministratorsLeaveLockedRows) {
  lock_timeout_ = absl::Milliseconds(100);
  Open(testing::TestPostgresUrl());
  std::vector<ReserveOp> ops = {OpFor("one"), OpFor("two"), OpFor("three")};
  for (const auto& verdict : store_->Reserve(ops)) ASSERT_TRUE(verdict.ok());
  const std::string locked = ops[1].id.ToString();
  ASSERT_TRUE(schema_
                  ->Execute(absl::StrCat("BEGIN; SELECT id FROM records WHERE id = '", locked,
                                         "' FOR UPDATE"))
                  .ok());
  ResolveOp resolve;
  resolve.key = ops[1].key;
  resolve.id = ops[1].id;
  resolve.expected_attempt = 1;
  resolve.force = true;
  resolve.note = {"alice", "ticket 42"};
  EXPECT_EQ(ReasonOf(store_->Resolve(resolve).status()), Reason::kStoreUnavailable);
  PurgeOp purge;
  purge.name_space = "payments";
  purge.key = ops[1].key;
  purge.force = true;
  purge.note = {"alice", "ticket 42"};
  EXPECT_EQ(ReasonOf(store_->Purge(purge).status()), Reason::kStoreUnavailable);
  purge.key.reset();
  purge.scope = "tenant-1";
  const absl::StatusOr<PurgeStep> step = store_->Purge(purge);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->purged.size(), 2u);
  EXPECT_EQ(step->busy, 1);
  EXPECT_EQ(step->refused, 0);
  ASSERT_TRUE(schema_->Execute("COMMIT").ok());
  EXPECT_EQ(schema_->Value("SELECT string_agg(id::text, ',') FROM records"), locked);
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM audit_log"), "2");
  EXPECT_EQ(store_->Purge(purge)->purged.size(), 1u);
}

// The clock of a purge waits for a lock of the test: behind the snapshot of its statement, before
// the locks of its rows.
constexpr char kWaitingClock[] = R"sql(
CREATE FUNCTION waiting_now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF current_query() LIKE '%audit_log%' THEN PERFORM pg_advisory_xact_lock_shared(4711); END IF;
  RETURN clock_timestamp();
END $$
)sql";

class PostgresPurgeTest : public PostgresStoreTest {
 protected:
  void SetUp() override {
    PostgresStoreTest::SetUp();
    ASSERT_TRUE(schema_->Execute(kWaitingClock).ok());
    PostgresOptions options = schema_->options();
    options.clock_sql = absl::StrCat(options.schema, ".waiting_now()");
    store_ = PostgresStore::Create(options).value();
    ASSERT_TRUE(Reserve(op_).ok());
    purge_.name_space = op_.key.name_space;
    purge_.note = {"alice", "ticket 42"};
    purge_.force = true;
  }
  // The purge, while the key is started afresh and released after it read the record.
  absl::StatusOr<PurgeStep> PurgeAsItIsStartedAfresh() {
    const auto must = [this](const std::string& sql) { EXPECT_TRUE(schema_->Execute(sql).ok()); };
    must("SELECT pg_advisory_lock(4711)");
    absl::StatusOr<PurgeStep> step = absl::UnknownError("did not run");
    std::thread purger([&] {
      pthread_setname_np(pthread_self(), "purger");
      step = store_->Purge(purge_);
    });
    EXPECT_TRUE(
        Await("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted"
              " AND pg_backend_pid() = ANY (pg_blocking_pids(pid))",
              "t"));
    must(
        "UPDATE records SET state = 3, attempt = 2, token = gen_random_uuid(),"
        " created_at = created_at + interval '1 hour'");
    must("SELECT pg_advisory_unlock(4711)");
    purger.join();
    return step;
  }

  ReserveOp op_ = OpFor("charge");
  PurgeOp purge_;
};

TEST_F(PostgresPurgeTest, OfAnAgeLeavesARecordThatIsStartedAfresh) {
  purge_.created_before = absl::Now() + absl::Minutes(1);
  const auto step = PurgeAsItIsStartedAfresh();
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->purged.empty());
  EXPECT_EQ(step->busy, 0) << "it is not of the target";
  EXPECT_EQ(step->refused, 0);
  EXPECT_EQ(schema_->Value("SELECT attempt FROM records"), "2");
}

TEST_F(PostgresPurgeTest, OfAnAttemptLeavesTheNextOne) {
  purge_.key = op_.key;
  purge_.expected_attempt = 1;
  EXPECT_EQ(ReasonOf(PurgeAsItIsStartedAfresh().status()), Reason::kRecordChanged);
  EXPECT_EQ(schema_->Value("SELECT attempt FROM records"), "2");
}

TEST_F(PostgresPurgeTest, ADamagedRowIsBusy) {
  ASSERT_TRUE(Reserve(OpFor("other")).ok());
  for (const auto* const odd :
       {"labels = '[1]'", "labels = '{\"team\": 1}'", "tombstone_until = 'infinity'",
        "reply_until = 'infinity'", "fingerprints = '\\x00000001207a'"}) {
    SCOPED_TRACE(odd);
    ASSERT_TRUE(
        schema_->Execute(absl::StrCat("UPDATE records SET ", odd, " WHERE key = 'charge'")).ok());
    for (const bool by_scope : {false, true}) {
      purge_.scope.reset();
      if (by_scope) purge_.scope = op_.key.scope;
      purge_.validate_only = true;
      const auto counted = store_->Purge(purge_);
      ASSERT_TRUE(counted.ok()) << counted.status();
      EXPECT_EQ(counted->busy, 1);
      EXPECT_EQ(counted->purged.size(), 1u);
      purge_.validate_only = false;
      const auto purged = store_->Purge(purge_);
      ASSERT_TRUE(purged.ok()) << purged.status();
      EXPECT_EQ(purged->busy, 1);
      EXPECT_EQ(purged->purged.size(), 1u);
      ASSERT_TRUE(Reserve(OpFor("other")).ok());
    }
    ASSERT_TRUE(schema_
                    ->Execute("UPDATE records c SET labels = o.labels, reply_until = o.reply_until,"
                              " tombstone_until = o.tombstone_until, fingerprints = o.fingerprints"
                              " FROM records o WHERE c.key = 'charge' AND o.key = 'other'")
                    .ok());
  }
  EXPECT_EQ(store_->Purge(purge_)->purged.size(), 2u);
}

// Replaces every reply.
class ReplyReplacer final : public ContentSealer {
 public:
  ResealedContent Reseal(const StoredContent& stored) override {
    ResealedContent after;
    if (stored.reply) {
      v1::Reply reply;
      reply.set_body("sealed anew");
      after.reply = EncodeReply(reply);
    }
    return after;
  }
};

TEST_F(PostgresStoreTest, AResealLeavesLockedRows) {
  lock_timeout_ = absl::Milliseconds(100);
  Open(testing::TestPostgresUrl());
  std::vector<ReserveOp> ops = {OpFor("one"), OpFor("two"), OpFor("three")};
  for (const ReserveOp& op : ops) {
    const auto verdict = store_->Reserve({&op, 1}).at(0);
    ASSERT_TRUE(verdict.ok());
    v1::Reply reply;
    reply.set_body("paid");
    const CompleteOp complete{op.key, op.id, std::get<Reserved>(*verdict).token,
                              EncodeReply(reply)};
    ASSERT_TRUE(store_->Complete({&complete, 1}).at(0).ok());
  }
  ASSERT_TRUE(schema_
                  ->Execute(absl::StrCat("BEGIN; SELECT id FROM records WHERE id = '",
                                         ops[1].id.ToString(), "' FOR UPDATE"))
                  .ok());
  ReplyReplacer sealer;
  ResealOp op;
  op.name_space = "payments";
  op.note = {"alice", "ticket 42"};
  op.sealer = &sealer;
  const absl::StatusOr<ResealStep> step = store_->Reseal(op);
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_EQ(step->resealed.size(), 2u);
  EXPECT_EQ(step->busy, 1);
  ASSERT_TRUE(schema_->Execute("COMMIT").ok());
  EXPECT_EQ(schema_->Value("SELECT sum(records) FROM audit_log WHERE action = 5"), "2");
}

// The database computes the HMAC of a purge, this side that of an answer.
TEST_F(PostgresStoreTest, TheAuditLogHasTheHmacOfTheKey) {
  const ReserveOp op = OpFor("h\xC3\xA4sh");
  ASSERT_TRUE(Reserve(op).ok());
  PurgeOp purge;
  purge.name_space = "payments";
  purge.key = op.key;
  purge.force = true;
  purge.note = {"alice", "ticket 42"};
  const absl::StatusOr<PurgeStep> step = store_->Purge(purge);
  ASSERT_TRUE(step.ok()) << step.status();
  const absl::StatusOr<AuditPage> page = store_->ReadAudit({"payments"});
  ASSERT_TRUE(page.ok()) << page.status();
  ASSERT_EQ(page->entries.size(), 1u);
  EXPECT_EQ(page->entries[0].key_hmac, step->key_hmac);
}

TEST_F(PostgresStoreTest, OneUnstorableOperationFailsAlone) {
  std::vector<ReserveOp> ops = {OpFor("one"), OpFor("two"), OpFor("three")};
  ops[1].key.scope = std::string("nul\0secret", 10);
  const auto verdicts = store_->Reserve(ops);
  EXPECT_TRUE(verdicts[0].ok()) << verdicts[0].status();
  EXPECT_EQ(ReasonOf(verdicts[1].status()), Reason::kRequestInvalid);
  EXPECT_TRUE(verdicts[2].ok()) << verdicts[2].status();
  EXPECT_TRUE(Complete(CompletionOf(ops[0], verdicts[0])).ok());
}

TEST_F(PostgresStoreTest, CompletionsAndNewReservationsShareOneCommit) {
  const std::vector<ReserveOp> running = {OpFor("one"), OpFor("two")};
  const auto verdicts = store_->Reserve(running);
  const std::vector<CompleteOp> completions = {CompletionOf(running[0], verdicts[0]),
                                               CompletionOf(running[1], verdicts[1])};
  const std::vector<ReserveOp> fresh = {OpFor("three"), OpFor("four"), OpFor("five")};
  const SharedAnswers answers = store_->CompleteAndReserve(completions, fresh);
  for (const auto& completion : answers.completions) EXPECT_TRUE(completion.ok());
  for (const auto& verdict : answers.verdicts) EXPECT_TRUE(verdict.ok());
  EXPECT_EQ(schema_->Value("SELECT count(*) || '/' || count(DISTINCT xmin::text) FROM records"),
            "5/1");
}

TEST_F(PostgresStoreTest, OneUnstorableReservationFailsAloneAlsoBesideCompletions) {
  const ReserveOp running = OpFor("zero");
  const CompleteOp completion = CompletionOf(running, Reserve(running));
  std::vector<ReserveOp> ops = {OpFor("one"), OpFor("two"), OpFor("three")};
  ops[1].key.scope = std::string("nul\0secret", 10);
  const SharedAnswers answers = store_->CompleteAndReserve({&completion, 1}, ops);
  EXPECT_TRUE(answers.completions[0].ok()) << answers.completions[0].status();
  EXPECT_TRUE(answers.verdicts[0].ok()) << answers.verdicts[0].status();
  EXPECT_EQ(ReasonOf(answers.verdicts[1].status()), Reason::kRequestInvalid);
  EXPECT_TRUE(answers.verdicts[2].ok()) << answers.verdicts[2].status();
}

TEST_F(PostgresStoreTest, ErrorsHoldNoSqlAndNoParameters) {
  const ReserveOp op = OpFor("visible-key");
  ASSERT_TRUE(Reserve(op).ok());
  ASSERT_TRUE(schema_->Execute("ALTER TABLE records RENAME TO elsewhere").ok());
  store_ = *PostgresStore::Create(schema_->options());
  for (const absl::Status& status :
       {Reserve(op).status(), Complete({op.key, op.id, Uuid::Random(), {}}).status(),
        store_->Sweep({}).status(), store_->Inspect().status()}) {
    EXPECT_EQ(ReasonOf(status), Reason::kStoreUnavailable);
    for (const char* leak : {"records", "SELECT", "INSERT", "UPDATE", "relation", "visible-key"}) {
      EXPECT_THAT(status.ToString(), Not(HasSubstr(leak)));
    }
  }
}

TEST_F(PostgresStoreTest, OneReplicaSweepsAtATime) {
  const std::string lock = absl::StrCat(
      "SELECT pg_advisory_lock(hashtextextended('idempotency "
      "sweep ",
      schema_->options().schema, "', 0))");
  ASSERT_TRUE(schema_->Execute(lock).ok());
  EXPECT_TRUE(store_->Sweep({})->elsewhere);
  ASSERT_TRUE(schema_->Execute("SELECT pg_advisory_unlock_all()").ok());
  EXPECT_FALSE(store_->Sweep({})->elsewhere);
}

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

// However it was replaced: its records are lost, and every key would run again.
TEST_F(PostgresStoreTest, ARecreatedSchemaIsNotServed) {
  const ReserveOp op = OpFor("known");
  ASSERT_TRUE(Reserve(op).ok());
  ASSERT_TRUE(store_->Inspect().ok());
  ASSERT_TRUE(
      schema_->Execute(absl::StrCat("DROP SCHEMA ", schema_->options().schema, " CASCADE")).ok());
  EXPECT_THAT(store_->Inspect().status().ToString(), HasSubstr("was removed while it was served"));
  ASSERT_TRUE(PostgresMigrator(schema_->options()).Up().ok());
  EXPECT_THAT(store_->Inspect().status().ToString(), HasSubstr("was recreated"));
  const absl::StatusOr<Verdict> verdict = Reserve(op);
  EXPECT_EQ(ReasonOf(verdict.status()), Reason::kStoreUnavailable);
  EXPECT_THAT(verdict.status().ToString(), HasSubstr("was recreated"));
  EXPECT_EQ(DetailsOf(verdict.status()).retry_delay, retry_delays::kSchemaGone);
  // A store that begins with it misses no records.
  EXPECT_TRUE(PostgresStore::Create(schema_->options()).value()->Inspect().ok());
}

TEST_F(PostgresStoreTest, ASchemaThatWasTakenBackIsServedOnceItIsThereAgain) {
  ASSERT_TRUE(store_->Inspect().ok());
  ASSERT_TRUE(schema_
                  ->Execute("CREATE TABLE taken AS SELECT * FROM schema_migrations"
                            " WHERE version = 4; DELETE FROM schema_migrations WHERE version = 4")
                  .ok());
  EXPECT_EQ(ReasonOf(store_->Inspect().status()), Reason::kStoreUnavailable);
  EXPECT_EQ(ReasonOf(Reserve(OpFor("one")).status()), Reason::kStoreUnavailable);
  ASSERT_TRUE(schema_->Execute("INSERT INTO schema_migrations SELECT * FROM taken").ok());
  EXPECT_TRUE(store_->Inspect().ok());
  EXPECT_TRUE(Reserve(OpFor("one")).ok());
  // A newer one that this build may not serve.
  ASSERT_TRUE(schema_
                  ->Execute("INSERT INTO schema_migrations (version, name, checksum, serves_from)"
                            " VALUES (99, 'later', 'x', 99)")
                  .ok());
  EXPECT_THAT(store_->Inspect().status().ToString(), HasSubstr("newer idempotencyd"));
  EXPECT_EQ(ReasonOf(Reserve(OpFor("two")).status()), Reason::kStoreUnavailable);
}

TEST_F(PostgresStoreTest, NoConnectionBeginsWhileTheSchemaIsTakenBack) {
  const std::string lock = std::string(kPostgresServeLock);
  ASSERT_TRUE(schema_->Execute("SELECT pg_advisory_lock(" + lock + ")").ok());
  EXPECT_EQ(Reserve(OpFor("one")).status().code(), absl::StatusCode::kUnavailable);
  ASSERT_TRUE(schema_->Execute("SELECT pg_advisory_unlock_all()").ok());
  // The next attempt to connect has a pause before it.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  absl::Status reserved = Reserve(OpFor("one")).status();
  while (!reserved.ok() && std::chrono::steady_clock::now() < deadline) {
    reserved = Reserve(OpFor("one")).status();
  }
  EXPECT_TRUE(reserved.ok()) << reserved;
}

// Another connection holds locks on half of a batch's rows.
class PostgresLockTest : public PostgresStoreTest {
 protected:
  static constexpr int kOps = 64;

  void SetUp() override {
    lock_timeout_ = absl::Milliseconds(200);
    PostgresStoreTest::SetUp();
    for (int i = 0; i < kOps; ++i) reserving_.push_back(OpFor(absl::StrCat("key-", i)));
    for (const auto& verdict : store_->Reserve(reserving_)) {
      ASSERT_TRUE(verdict.ok()) << verdict.status();
      tokens_.push_back(std::get<Reserved>(*verdict).token);
    }
  }

  // Odd ones; released by ROLLBACK.
  void LockHalf(const std::string& with = "SELECT FROM records {where} FOR UPDATE") {
    std::string ids;
    for (int i = 1; i < kOps; i += 2) {
      absl::StrAppend(&ids, ids.empty() ? "" : "','", reserving_[i].id.ToString());
    }
    Run(absl::StrCat(
        "BEGIN; ",
        absl::StrReplaceAll(with, {{"{where}", absl::StrCat("WHERE id IN ('", ids, "')")}})));
  }
  void Run(const std::string& sql) {
    const auto done = schema_->Execute(sql);
    ASSERT_TRUE(done.ok()) << done.status();
  }

  std::vector<ExtendOp> Heartbeats() const {
    std::vector<ExtendOp> ops;
    for (int i = 0; i < kOps; ++i) {
      ops.push_back({reserving_[i].key, reserving_[i].id, tokens_[i], absl::Seconds(60), {}});
    }
    return ops;
  }
  std::vector<CompleteOp> Completions() const {
    std::vector<CompleteOp> ops;
    for (int i = 0; i < kOps; ++i) {
      ops.push_back({reserving_[i].key, reserving_[i].id, tokens_[i], ReplyWith("paid")});
    }
    return ops;
  }

  template <typename Answers>
  static void ExpectHalf(const Answers& answers) {
    ASSERT_EQ(answers.size(), static_cast<std::size_t>(kOps));
    for (int i = 0; i < kOps; ++i) {
      if (i % 2 == 0) {
        EXPECT_TRUE(answers[i].ok()) << i << answers[i].status();
      } else {
        EXPECT_EQ(ReasonOf(answers[i].status()), Reason::kStoreUnavailable) << i;
      }
    }
  }

  // Repeats it until the pause of the rows that were found locked is over.
  template <typename Answers>
  static void ExpectAll(const std::function<Answers()>& attempt) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    Answers answers = attempt();
    const auto done = [](const auto& answer) { return answer.ok(); };
    while (!std::all_of(answers.begin(), answers.end(), done)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      answers = attempt();
    }
  }

  std::vector<ReserveOp> reserving_;
  std::vector<Uuid> tokens_;
};

TEST_F(PostgresLockTest, HeartbeatsOfOthersContinue) {
  LockHalf();
  ExpectHalf(store_->Extend(Heartbeats()));
  Run("ROLLBACK");
  ExpectAll(std::function([this] { return store_->Extend(Heartbeats()); }));
}

TEST_F(PostgresLockTest, CompletionsOfOthersContinueAndSoDoReservationsBesideThem) {
  LockHalf();
  std::vector<ReserveOp> fresh;
  for (int i = 0; i < kOps; ++i) fresh.push_back(OpFor(absl::StrCat("new-", i)));
  const SharedAnswers answers = store_->CompleteAndReserve(Completions(), fresh);
  ExpectHalf(answers.completions);
  for (const auto& verdict : answers.verdicts) EXPECT_TRUE(verdict.ok()) << verdict.status();
  Run("ROLLBACK");
  ExpectAll(std::function([this] { return store_->Complete(Completions()); }));
}

// A caller repeats operations that failed; without a pause each repeat made its batch wait.
TEST_F(PostgresLockTest, ARowThatWasFoundLockedIsNotTriedForAWhile) {
  PostgresOptions options = schema_->options();
  options.lock_timeout = lock_timeout_;
  options.locked_pause = absl::Hours(1);
  store_ = PostgresStore::Create(options).value();
  LockHalf();
  ExpectHalf(store_->Extend(Heartbeats()));
  Run("ROLLBACK");
  // No statement waits, and none detects that the rows are no longer locked.
  ExpectHalf(store_->Extend(Heartbeats()));
  std::vector<ReserveOp> fresh = {OpFor("new")};
  const SharedAnswers answers = store_->CompleteAndReserve(Completions(), fresh);
  ExpectHalf(answers.completions);
  EXPECT_TRUE(answers.verdicts.at(0).ok());
  // Reading does not wait.
  const GetOp look{reserving_[1].id, reserving_[1].key};
  EXPECT_TRUE(store_->Get({&look, 1}).at(0).ok());
  // Another process sees the rows as they are.
  store_ = PostgresStore::Create(schema_->options()).value();
  for (const auto& completed : store_->Complete(Completions())) EXPECT_TRUE(completed.ok());
}

TEST_F(PostgresLockTest, TakeOversOfOthersContinue) {
  Run("UPDATE records SET lease_until = clock_timestamp()");
  // An insert waits for a row that is being changed.
  LockHalf("UPDATE records SET scope = scope {where}");
  std::vector<ReserveOp> ops = reserving_;
  for (ReserveOp& op : ops) op.request_token = Uuid::Random();
  ExpectHalf(store_->Reserve(ops));
  Run("ROLLBACK");
}

// Such a row is invisible to other connections, so that it cannot be named.
TEST_F(PostgresLockTest, ReservationsBesideAKeyThatIsBeingInsertedContinue) {
  std::vector<ReserveOp> ops;
  for (int i = 0; i < 4; ++i) ops.push_back(OpFor(absl::StrCat("new-", i)));
  Run(
      absl::StrCat("BEGIN; INSERT INTO records (id, namespace, scope, operation, key, state,"
                   " require_recovery, attempt, token, created_at, lease_until, expires_at,"
                   " fingerprints) VALUES ('",
                   ops[2].id.ToString(),
                   "', 'n', 's', 'o', 'k', 1, false, 1, gen_random_uuid(), now(), now(), now(),"
                   " 'f')"));
  const auto verdicts = store_->Reserve(ops);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(verdicts[i].ok(), i != 2) << i << verdicts[i].status();
  EXPECT_EQ(ReasonOf(verdicts[2].status()), Reason::kStoreUnavailable);
  Run("ROLLBACK");
}

TEST_F(PostgresLockTest, TheSweepWaitsForNoRow) {
  Run("UPDATE records SET created_at = created_at - interval '40 days',"
      " lease_until = lease_until - interval '40 days',"
      " expires_at = expires_at - interval '40 days'");
  LockHalf();
  const auto swept = store_->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->removed, kOps / 2);
  Run("ROLLBACK");
}

// A process that was stopped in a transaction.
TEST_F(PostgresLockTest, AConnectionThatStandsStillInATransactionLosesItsLocks) {
  SocketWatchdog watchdog;
  PostgresOptions options = schema_->options();
  options.idle_in_transaction_timeout = absl::Milliseconds(300);
  auto frozen = PostgresConnection::Open(options, watchdog);
  ASSERT_TRUE(frozen.ok()) << frozen.status();
  ASSERT_TRUE((*frozen)->Begin().ok());
  ASSERT_TRUE((*frozen)->ExecuteScript("SELECT FROM records FOR UPDATE").ok());
  EXPECT_TRUE(
      Await("SELECT count(*) FROM pg_locks WHERE relation = 'records'::regclass"
            " AND mode = 'RowShareLock'",
            "0"));
  for (const auto& extended : store_->Extend(Heartbeats())) {
    EXPECT_TRUE(extended.ok()) << extended.status();
  }
}

TEST_F(PostgresStoreTest, TheServerIsConfiguredToDetectALostClient) {
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pg_settings WHERE source = 'session' AND name IN"
                           " ('tcp_keepalives_idle', 'tcp_keepalives_interval',"
                           " 'tcp_keepalives_count', 'tcp_user_timeout',"
                           " 'idle_in_transaction_session_timeout', 'lock_timeout')"),
            "6");
}

// By a program that writes to the table, in a form that this service does not.
TEST_F(PostgresStoreTest, AnOddValueDamagesItsRecordAlone) {
  for (const auto* const odd :
       {"labels = '[1]'", "labels = '{\"team\": 1}'", "expires_at = 'infinity'",
        "tombstone_until = 'infinity'", "reply_until = 'infinity'"}) {
    for (const PostgresStatementMode mode :
         {PostgresStatementMode::kBatched, PostgresStatementMode::kSingleRow}) {
      statements_ = mode;
      Open(testing::TestPostgresUrl());
      std::vector<ReserveOp> ops = {OpFor("odd"), OpFor("other")};
      for (const auto& granted : store_->Reserve(ops)) ASSERT_TRUE(granted.ok());
      ASSERT_TRUE(
          schema_->Execute(absl::StrCat("UPDATE records SET ", odd, " WHERE key = 'odd'")).ok());
      for (ReserveOp& op : ops) op.request_token = Uuid::Random();
      const auto verdicts = store_->Reserve(ops);
      EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kRecordDamaged) << odd;
      EXPECT_TRUE(verdicts[1].ok()) << odd << ": " << verdicts[1].status();
      GetOp look;
      look.id = ops[0].id;
      EXPECT_EQ(ReasonOf(store_->Get({&look, 1}).at(0).status()), Reason::kRecordDamaged) << odd;
    }
  }
}

// The chunks of every reply that is stored out of its row. The server protects such tables.
constexpr char kLoseReplies[] = R"sql(
SET allow_system_table_mods = on;
DO $$
DECLARE chunks regclass := (SELECT reltoastrelid FROM pg_class WHERE oid = 'records'::regclass);
BEGIN
  UPDATE pg_class SET relkind = 'r' WHERE oid = chunks;
  EXECUTE format('TRUNCATE %s', chunks);
  UPDATE pg_class SET relkind = 't' WHERE oid = chunks;
END $$;
SET allow_system_table_mods = off
)sql";

class PostgresDamageTest : public PostgresStoreTest,
                           public ::testing::WithParamInterface<PostgresStatementMode> {
 protected:
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
  // "damaged", "1" and "2", of which the first has lost its reply.
  std::vector<ReserveOp> RunAll() {
    std::vector<ReserveOp> ops = {OpFor("damaged"), OpFor("1"), OpFor("2")};
    for (ReserveOp& op : ops) {
      op.reply_retention = absl::Hours(1);
      Run(op);
      if (op.key.key == "damaged") Must(kLoseReplies);
      op.request_token = Uuid::Random();
    }
    return ops;
  }
};
INSTANTIATE_TEST_SUITE_P(Statements, PostgresDamageTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         [](const auto& parameter) {
                           return parameter.param == PostgresStatementMode::kBatched ? "Batched"
                                                                                     : "SingleRow";
                         });

TEST_P(PostgresDamageTest, AReplyThatTheServerCannotReadFailsItsRecordAlone) {
  const std::vector<ReserveOp> ops = RunAll();
  const auto verdicts = store_->Reserve(ops);
  EXPECT_EQ(ReasonOf(verdicts[0].status()), Reason::kRecordDamaged) << verdicts[0].status();
  std::vector<GetOp> looks;
  for (const ReserveOp& op : ops) looks.push_back({op.id, op.key, /*confirmed=*/false});
  const auto records = store_->Get(looks);
  EXPECT_EQ(ReasonOf(records[0].status()), Reason::kRecordDamaged) << records[0].status();
  for (const std::size_t i : {1, 2}) {
    ASSERT_TRUE(verdicts[i].ok()) << verdicts[i].status();
    EXPECT_TRUE(std::holds_alternative<Replay>(*verdicts[i]));
    EXPECT_TRUE(records[i].ok()) << records[i].status();
  }
  EXPECT_EQ(store_->connections().broken, 0);
}

TEST_P(PostgresDamageTest, AReplyThatTheServerCannotReadDoesNotStopTheSweep) {
  RunAll();
  Must("UPDATE records SET reply_until = clock_timestamp() - interval '1 minute'");
  const auto swept = store_->Sweep({});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->replies_dropped, 2);
  Must(
      "UPDATE records SET created_at = created_at - interval '100 days',"
      " lease_until = lease_until - interval '100 days',"
      " completed_at = completed_at - interval '100 days', reply_until = NULL,"
      " expires_at = expires_at - interval '100 days'");
  EXPECT_EQ(store_->Sweep({})->removed, 3) << "the damaged one too";
}

// These stop or stall a server, so they have one of their own.
class PostgresFaultTest : public PostgresStoreTest {
 protected:
  void SetUp() override {
    auto cluster = testing::PostgresCluster::Create();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    Open(cluster_->url());
  }
  void TearDown() override {
    store_.reset();
    schema_.reset();
  }

  std::unique_ptr<testing::PostgresCluster> cluster_;
};

TEST_F(PostgresFaultTest, AcknowledgedWorkSurvivesACrashAndThePoolHeals) {
  const ReserveOp done = OpFor("done");
  ASSERT_TRUE(Complete(CompletionOf(done, Reserve(done))).ok());
  const ReserveOp open = OpFor("open");
  const auto granted = Reserve(open);
  ASSERT_TRUE(granted.ok());

  ASSERT_TRUE(cluster_->StopImmediate().ok());
  EXPECT_EQ(ReasonOf(Reserve(open).status()), Reason::kStoreUnavailable);
  EXPECT_GE(store_->connections().broken, 1);
  ASSERT_TRUE(cluster_->Start().ok());

  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  absl::StatusOr<Verdict> again = Reserve(open);
  while (!again.ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    again = Reserve(open);
  }
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(std::holds_alternative<Reserved>(*again));
  EXPECT_TRUE(std::get<Reserved>(*again).repeated) << "the same request token, the same grant";
  EXPECT_EQ(std::get<Reserved>(*again).token, std::get<Reserved>(*granted).token);
  EXPECT_TRUE(std::holds_alternative<Replay>(*Reserve(done)));
  EXPECT_EQ(store_->connections().broken, 0);
}

TEST_F(PostgresFaultTest, AStalledServerIsAbandonedAndTheCallRepeated) {
  statement_timeout_ = absl::Milliseconds(300);
  Open(cluster_->url());
  const ReserveOp op = OpFor("stalled");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  // The store's only connection; it stands still, and so does its timeout.
  const pid_t backend = std::stoi(
      schema_->Value("SELECT pid FROM pg_stat_activity"
                     " WHERE application_name = 'idempotencyd' AND pid <> pg_backend_pid()"));
  ASSERT_EQ(kill(backend, SIGSTOP), 0);
  EXPECT_EQ(ReasonOf(Complete(completion).status()), Reason::kStoreUnavailable);
  ASSERT_EQ(kill(backend, SIGCONT), 0);
  EXPECT_TRUE(Complete(completion).ok()) << "on another connection, whichever came first";
}

TEST_F(PostgresFaultTest, AStatementThatWaitsForALockIsAbandonedInTime) {
  statement_timeout_ = absl::Milliseconds(300);
  Open(cluster_->url());
  const ReserveOp op = OpFor("locked");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  ASSERT_TRUE(schema_->Execute("BEGIN; SELECT FROM records FOR UPDATE").ok());
  EXPECT_EQ(ReasonOf(Complete(completion).status()), Reason::kStoreUnavailable);
  EXPECT_EQ(store_->connections().broken, 0) << "the connection is as good as before";
  ASSERT_TRUE(schema_->Execute("ROLLBACK").ok());
  // A row that was found locked is not tried for a while.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  absl::Status completed = Complete(completion).status();
  while (!completed.ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
    completed = Complete(completion).status();
  }
  EXPECT_TRUE(completed.ok()) << completed;
}

// Commits wait for a standby that does not exist, until they are cancelled.
class PostgresStandbyTest : public PostgresFaultTest {
 protected:
  void SetStandbys(const std::string& names) {
    ASSERT_TRUE(schema_->Execute("SET synchronous_commit TO local").ok());
    ASSERT_TRUE(
        schema_
            ->Execute(absl::StrCat("ALTER SYSTEM SET synchronous_standby_names TO '", names, "'"))
            .ok());
    ASSERT_TRUE(schema_->Execute("SELECT pg_reload_conf()").ok());
  }

  void TakeStandbyAway() {
    SetStandbys("nobody");
    // The server's processes read the setting one by one: others commit first until one waits.
    std::atomic<bool> one_waited{false};
    std::thread others([&] {
      pthread_setname_np(pthread_self(), "others");
      int number = 0;
      while (Reserve(OpFor(absl::StrCat("other-", number))).ok() && !one_waited) ++number;
    });
    AwaitTheWait();
    one_waited = true;
    CancelTheWait();
    others.join();
  }

  void AwaitTheWait() {
    EXPECT_TRUE(Await("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'", "1"));
  }

  void CancelTheWait() {
    AwaitTheWait();
    EXPECT_TRUE(schema_
                    ->Execute("SELECT pg_cancel_backend(pid) FROM pg_stat_activity"
                              " WHERE wait_event = 'SyncRep'")
                    .ok());
  }

  // Runs it until it waits for the standby, and then interrupts the wait.
  template <typename Call>
  void Cancelled(Call call) {
    std::thread caller([&] {
      pthread_setname_np(pthread_self(), "caller");
      call();
    });
    CancelTheWait();
    caller.join();
  }
};

class PostgresConfirmationTest : public PostgresStandbyTest,
                                 public ::testing::WithParamInterface<PostgresStatementMode> {
 protected:
  void SetUp() override {
    statements_ = GetParam();
    PostgresStandbyTest::SetUp();
  }
};
INSTANTIATE_TEST_SUITE_P(Statements, PostgresConfirmationTest,
                         ::testing::Values(PostgresStatementMode::kBatched,
                                           PostgresStatementMode::kSingleRow),
                         [](const ::testing::TestParamInfo<PostgresStatementMode>& mode) {
                           return mode.param == PostgresStatementMode::kBatched ? "Batched"
                                                                                : "SingleRow";
                         });

TEST_P(PostgresConfirmationTest, ACommitThatTheStandbyDidNotConfirmIsNotAnOk) {
  const ReserveOp op = OpFor("charge");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  TakeStandbyAway();
  // First the operation, then its repeat, which must not confirm it either.
  const ReserveOp next = OpFor("next");
  for (int i = 0; i < 2; ++i) {
    absl::StatusOr<Completion> completed = absl::UnknownError("did not run");
    Cancelled([&] { completed = Complete(completion); });
    EXPECT_EQ(ReasonOf(completed.status()), Reason::kStoreUnavailable) << i;
    absl::StatusOr<Verdict> granted = absl::UnknownError("did not run");
    Cancelled([&] { granted = Reserve(next); });
    EXPECT_EQ(ReasonOf(granted.status()), Reason::kStoreUnavailable) << i;
  }
  SetStandbys("");
  const auto repeated = Complete(completion);
  ASSERT_TRUE(repeated.ok()) << repeated.status();
  EXPECT_TRUE(repeated->repeated);
  const auto granted = Reserve(next);
  ASSERT_TRUE(granted.ok()) << granted.status();
  ASSERT_TRUE(std::holds_alternative<Reserved>(*granted));
  EXPECT_TRUE(std::get<Reserved>(*granted).repeated);
}

// The warning is the only report of it.
TEST_P(PostgresConfirmationTest, ACommitIsNoOkEitherWhereTheLoginSilencesWarnings) {
  ASSERT_TRUE(schema_->Execute("ALTER ROLE CURRENT_USER SET client_min_messages TO error").ok());
  Open(cluster_->url());
  const ReserveOp op = OpFor("charge");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  TakeStandbyAway();
  absl::StatusOr<Completion> completed = absl::UnknownError("did not run");
  Cancelled([&] { completed = Complete(completion); });
  EXPECT_EQ(ReasonOf(completed.status()), Reason::kStoreUnavailable);
  SetStandbys("");
}

TEST_P(PostgresConfirmationTest, AReplyThatTheStandbyDidNotConfirmIsNotReplayed) {
  const ReserveOp op = OpFor("charge");
  const CompleteOp completion = CompletionOf(op, Reserve(op));
  TakeStandbyAway();
  Cancelled([&] { EXPECT_FALSE(Complete(completion).ok()); });
  ASSERT_EQ(schema_->Value("SELECT state FROM records WHERE key = 'charge'"), "2")
      << "everybody can see it now";

  ReserveOp again = op;
  again.request_token = Uuid::Random();
  absl::StatusOr<Verdict> answer = absl::UnknownError("did not run");
  Cancelled([&] { answer = Reserve(again); });
  EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  // For people, the server's current state.
  GetOp look;
  look.id = op.id;
  EXPECT_TRUE(store_->Get({&look, 1}).at(0).ok());
  // For callers that waited, only records that the standby has too.
  look.confirmed = true;
  absl::StatusOr<Record> found = absl::UnknownError("did not run");
  Cancelled([&] { found = store_->Get({&look, 1}).at(0); });
  EXPECT_EQ(ReasonOf(found.status()), Reason::kStoreUnavailable);

  SetStandbys("");
  const auto replayed = Reserve(again);
  ASSERT_TRUE(replayed.ok()) << replayed.status();
  ASSERT_TRUE(std::holds_alternative<Replay>(*replayed));
  EXPECT_EQ(std::get<Replay>(*replayed).reply.bytes, completion.reply.bytes);
  found = store_->Get({&look, 1}).at(0);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->state, RecordState::kCompleted);
}

// A refusal discloses a record, too: a failover that reverts the record would make the refusal
// wrong.
TEST_P(PostgresConfirmationTest, NothingIsAnsweredAboutARecordThatTheStandbyDidNotConfirm) {
  TakeStandbyAway();
  const ReserveOp op = OpFor("charge");
  Cancelled([&] { EXPECT_FALSE(Reserve(op).ok()); });
  ASSERT_EQ(schema_->Value("SELECT state FROM records WHERE key = 'charge'"), "1")
      << "everybody can see it now";

  ReserveOp another = op;
  another.request_token = Uuid::Random();
  ReserveOp other = another;
  other.fingerprints = {{1, std::string(32, 'b')}};
  CompleteOp stale;
  stale.id = op.id;
  stale.key = op.key;
  stale.token = Uuid::Random();
  stale.reply = EncodeReply(v1::Reply());
  absl::StatusOr<Verdict> answer = absl::UnknownError("did not run");
  for (const ReserveOp& asked : {another, other}) {
    Cancelled([&] { answer = Reserve(asked); });
    EXPECT_EQ(ReasonOf(answer.status()), Reason::kStoreUnavailable);
  }
  absl::StatusOr<Completion> completed = absl::UnknownError("did not run");
  Cancelled([&] { completed = Complete(stale); });
  EXPECT_EQ(ReasonOf(completed.status()), Reason::kStoreUnavailable);

  SetStandbys("");
  answer = Reserve(another);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(std::holds_alternative<InFlight>(*answer));
  answer = Reserve(other);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(std::holds_alternative<Mismatch>(*answer));
  EXPECT_EQ(ReasonOf(Complete(stale).status()), Reason::kReservationLost);
}

// Each abandoned call leaves a connection behind, which waits until the standby is available again.
TEST_F(PostgresStandbyTest, AbandonedConnectionsAreBounded) {
  statement_timeout_ = absl::Milliseconds(100);
  Open(cluster_->url());
  TakeStandbyAway();
  const std::string connections =
      "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'idempotencyd'"
      " AND pid <> pg_backend_pid()";
  const PostgresOptions defaults;
  // The connections of one wave, those that are tolerated before it, and one that is being opened.
  const int bound = 2 * defaults.connections + defaults.max_abandoned_sessions + 1;
  for (int round = 0; round < 10; ++round) {
    std::vector<std::thread> callers;
    for (int i = 0; i < defaults.connections; ++i) {
      callers.emplace_back([&, key = absl::StrCat("key-", round, "-", i)] {
        pthread_setname_np(pthread_self(), "caller");
        EXPECT_EQ(ReasonOf(Reserve(OpFor(key)).status()), Reason::kStoreUnavailable);
      });
    }
    for (std::thread& caller : callers) caller.join();
    EXPECT_LE(std::stoi(schema_->Value(connections)), bound) << round;
  }
  EXPECT_FALSE(store_->Inspect().ok());
  SetStandbys("");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!store_->Inspect().ok() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_TRUE(Reserve(OpFor("after")).ok());
}

// Reads succeed in either case, and no completion would be durable.
TEST_F(PostgresStandbyTest, AnInspectionFailsWhileNoCommitIsConfirmed) {
  ASSERT_TRUE(store_->Inspect().ok());
  TakeStandbyAway();
  PostgresOptions options = schema_->options();
  options.probe_timeout = absl::Milliseconds(300);
  options.lock_timeout = absl::Milliseconds(300);
  const auto probing = PostgresStore::Create(options).value();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(ReasonOf(probing->Inspect().status()), Reason::kStoreUnavailable) << i;
  }
  EXPECT_EQ(schema_->Value("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"),
            "1")
      << "the first waits with the row locked, the others at the lock";
  SetStandbys("");
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  absl::StatusOr<StoreGauges> gauges = probing->Inspect();
  while (!gauges.ok() && std::chrono::steady_clock::now() < deadline) gauges = probing->Inspect();
  EXPECT_TRUE(gauges.ok()) << gauges.status();
}

TEST_F(PostgresFaultTest, AnInspectionFailsWhileTheServerOnlyReads) {
  PostgresOptions options = schema_->options();
  options.commit_proof = absl::Milliseconds(1);
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

TEST_F(PostgresFaultTest, CommitsAreDurableUnderAnyDefaultOfTheDatabase) {
  for (const auto& [given, kept] : {std::pair("off", "on"), std::pair("local", "on"),
                                    std::pair("remote_apply", "remote_apply")}) {
    ASSERT_TRUE(
        schema_->Execute(absl::StrCat("ALTER DATABASE postgres SET synchronous_commit TO ", given))
            .ok());
    Open(cluster_->url());
    EXPECT_EQ(schema_->Value("SHOW synchronous_commit"), kept);
  }
}

}  // namespace
}  // namespace idempotency::internal

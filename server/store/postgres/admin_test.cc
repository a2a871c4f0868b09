// Administrators' operations beside other transactions, and what the audit log has of them.
#include <gtest/gtest.h>
#include <pthread.h>

#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/postgres/testing/reply_replacer.h"
#include "server/store/postgres/testing/store_fixture.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal {
namespace {

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
  // The purge, while the record changes after it read it.
  absl::StatusOr<PurgeStep> PurgeUnder(const std::string& change) {
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
    must(absl::StrCat("UPDATE records SET ", change));
    must("SELECT pg_advisory_unlock(4711)");
    purger.join();
    return step;
  }

  ReserveOp op_ = OpFor("charge");
  PurgeOp purge_;
};

TEST_F(PostgresPurgeTest, OfAnAgeLeavesARecordThatIsStartedAfresh) {
  purge_.created_before = absl::Now() + absl::Minutes(1);
  const auto step = PurgeUnder(
      "state = 3, attempt = 2, token = gen_random_uuid(),"
      " created_at = created_at + interval '1 hour'");
  ASSERT_TRUE(step.ok()) << step.status();
  EXPECT_TRUE(step->purged.empty());
  EXPECT_EQ(step->busy, 0) << "it is not of the target";
  EXPECT_EQ(step->refused, 0);
  EXPECT_EQ(schema_->Value("SELECT attempt FROM records"), "2");
}

TEST_F(PostgresPurgeTest, OfAnAttemptLeavesTheNextOne) {
  purge_.key = op_.key;
  purge_.expected_attempt = 1;
  // Nothing else: other conditions hold still.
  EXPECT_EQ(ReasonOf(PurgeUnder("attempt = 2").status()), Reason::kRecordChanged);
  EXPECT_EQ(schema_->Value("SELECT attempt FROM records"), "2");
}

// The token of an attempt stays when it completes.
TEST_F(PostgresPurgeTest, OfAReservationLeavesItsCompletion) {
  purge_.key = op_.key;
  purge_.expected_state = RecordState::kReserved;
  const auto step = PurgeUnder(
      "state = 2, completed_at = clock_timestamp(), reply = 'r', reply_digest = sha256('r')");
  EXPECT_EQ(ReasonOf(step.status()), Reason::kRecordChanged) << step.status();
  EXPECT_EQ(schema_->Value("SELECT state FROM records"), "2");
}

TEST_F(PostgresPurgeTest, ADamagedRowIsBusy) {
  ASSERT_TRUE(Reserve(OpFor("other")).ok());
  for (const auto* const odd :
       {"labels = '[1]'", "labels = '{\"team\": 1}'", "tombstone_until = 'infinity'",
        "reply_until = 'infinity'", "fingerprints = '\\x00000001207a'"}) {
    SCOPED_TRACE(odd);
    ASSERT_TRUE(
        schema_->Execute(absl::StrCat("UPDATE records SET ", odd, " WHERE key = 'charge'")).ok());
    ListOp list;
    list.name_space = op_.key.name_space;
    const auto page = store_->List(list);
    ASSERT_TRUE(page.ok()) << page.status();
    EXPECT_EQ(page->records.size(), 1u);
    EXPECT_EQ(page->damaged, 1);
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

}  // namespace
}  // namespace idempotency::internal

// Every write repeats the conditions that the row must still meet. Under the file's write lock a
// store has just read it, so only this test can present a row that differs.
#include "server/store/sqlite/records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "server/store/sqlite/schema.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

constexpr std::uint32_t kAttempt = 3;

absl::Time At(absl::Duration since) { return absl::FromUnixSeconds(1'700'000'000) + since; }

class SqliteRecordsTest : public ::testing::Test {
 protected:
  SqliteRecordsTest() {
    const std::string path = folder_.File("records.db");
    EXPECT_EQ(connection_.Open(path, absl::Seconds(5)), 0);
    EXPECT_TRUE(MigrateSqliteSchema(connection_, path).ok());
    // Nothing here needs to be kept after the process.
    EXPECT_TRUE(connection_.Execute("PRAGMA synchronous = OFF").ok());
    absl::StatusOr<SqliteRecords> records = SqliteRecords::Prepare(connection_);
    EXPECT_TRUE(records.ok()) << records.status();
    records_.emplace(*std::move(records));
  }

  static ReserveOp OpFor(const std::string& key) {
    ReserveOp op;
    op.key = {"payments", "tenant-1", "/payments.v1.Payments/Charge", key};
    op.id = RecordIdFor(op.key);
    op.fingerprints = {{1, std::string(32, 'a')}};
    return op;
  }

  // Both under one token: only the id distinguishes them.
  void Insert(const ReserveOp& op) {
    Grant grant;
    grant.attempt = kAttempt;
    grant.created_at = At(absl::ZeroDuration());
    grant.lease_expires_at = At(absl::Seconds(30));
    grant.expires_at = At(absl::Hours(24));
    grant.reply_expires_at = At(absl::Hours(1));
    ASSERT_TRUE(records_->Insert(op, grant, token_).ok());
  }

  void SetState(const ReserveOp& op, RecordState state) {
    switch (state) {
      case RecordState::kReserved:
        return;
      case RecordState::kCompleted:
        EXPECT_TRUE(Complete(op, token_).ok());
        return;
      case RecordState::kReleased:
      case RecordState::kUnknown:
        EXPECT_TRUE(
            records_->Release({op.key, op.id, token_, "why"}, state, At(absl::Seconds(1))).ok());
    }
  }

  absl::Status Complete(const ReserveOp& op, const Uuid& token) {
    v1::Reply reply;
    reply.set_body("paid");
    return records_->Complete({op.key, op.id, token, EncodeReply(reply)}, At(absl::Seconds(2)));
  }

  std::string Show(const ReserveOp& op) {
    const auto found = records_->Find(op.id, SqliteRecords::Detail::kWhole);
    if (!found.ok()) return found.status().ToString();
    if (!*found) return "no row";
    const StoredRecord& stored = **found;
    return absl::StrCat("state ", static_cast<int>(stored.record.state), " attempt ",
                        stored.record.attempt, " token ", stored.record.token.ToString(), " lease ",
                        absl::ToUnixMicros(stored.record.lease_expires_at), " end ",
                        absl::ToUnixMicros(stored.record.expires_at), " reason ",
                        stored.record.release_reason, " reply ",
                        stored.record.reply ? stored.record.reply->bytes : "none", " dropped ",
                        stored.completed_digest.has_value(), " checkpoint ", stored.checkpoint);
  }

  struct Write {
    std::string name;
    // The states in which it may happen.
    std::vector<RecordState> from;
    std::function<absl::Status(const ReserveOp&, const RowVersion&)> run;
    bool needs_attempt = true;
  };
  std::vector<Write> Writes() {
    const RecordState reserved = RecordState::kReserved;
    const RecordState completed = RecordState::kCompleted;
    const RecordState released = RecordState::kReleased;
    const RecordState unknown = RecordState::kUnknown;
    Grant next;
    next.attempt = kAttempt + 1;
    next.lease_expires_at = At(absl::Minutes(2));
    next.expires_at = At(absl::Hours(25));
    const EncodedReply rest = EncodeReply(v1::Reply());
    return {
        {"GrantNext",
         {reserved, released, unknown},
         [this, next](const ReserveOp& op, const RowVersion& expected) {
           return records_->GrantNext(op, next, Uuid::Random(), expected);
         }},
        {"RenewLease",
         {reserved},
         [this](const ReserveOp& op, const RowVersion& expected) {
           return records_->RenewLease(op.id, At(absl::Minutes(2)), expected);
         }},
        {"MarkUnknown",
         {reserved},
         [this](const ReserveOp& op, const RowVersion& expected) {
           return records_->MarkUnknown(op.id, expected);
         }},
        {"Remove",
         {reserved, completed, released, unknown},
         [this](const ReserveOp& op, const RowVersion& expected) {
           return records_->Remove(op.id, expected);
         }},
        {"LeaveTombstone",
         {reserved, completed, released, unknown},
         [this](const ReserveOp& op, const RowVersion& expected) {
           return records_->LeaveTombstone(op.id, expected);
         }},
        {"DropReply",
         {completed},
         [this, rest](const ReserveOp& op, const RowVersion& expected) {
           return records_->DropReply(op.id, rest, expected);
         }},
        {"Complete",
         {reserved, unknown},
         [this](const ReserveOp& op, const RowVersion& expected) {
           return Complete(op, expected.token);
         },
         /*needs_attempt=*/false},
        {"Release",
         {reserved},
         [this](const ReserveOp& op, const RowVersion& expected) {
           return records_->Release({op.key, op.id, expected.token, "another"},
                                    RecordState::kReleased, At(absl::Seconds(3)));
         },
         /*needs_attempt=*/false},
        {"Extend",
         {reserved},
         [this](const ReserveOp& op, const RowVersion& expected) {
           return records_->Extend({op.key, op.id, expected.token, absl::Seconds(30), "step"},
                                   At(absl::Minutes(2)));
         },
         /*needs_attempt=*/false},
    };
  }

  // Two rows in `state`, each time with keys of their own.
  void Prepare(RecordState state) {
    ++rounds_;
    op_ = OpFor(absl::StrCat("one-", rounds_));
    other_ = OpFor(absl::StrCat("two-", rounds_));
    for (const ReserveOp& op : {op_, other_}) {
      Insert(op);
      SetState(op, state);
    }
  }

  const testing::TempFolder folder_;
  SqliteConnection connection_;
  std::optional<SqliteRecords> records_;
  const Uuid token_ = Uuid::Random();
  int rounds_ = 0;
  ReserveOp op_;
  ReserveOp other_;
};

// The operator of an upgrade frees the disk, and does not look for permissions.
TEST_F(SqliteRecordsTest, AMigrationOnAFullDiskSaysSo) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(connection_
                    .Execute("INSERT INTO audit_log (at, actor, reason, action, forced, namespace,"
                             " record_id, key_hmac, state, attempt, records) VALUES (1, 'alice',"
                             " printf('%1000c', 'r'), 1, 0, 'payments', zeroblob(16),"
                             " zeroblob(32), 1, 1, 1)")
                    .ok());
  }
  // The step that makes the audit log anew.
  ASSERT_TRUE(connection_.Execute("PRAGMA user_version = 3; PRAGMA cache_size = 10").ok());
  const auto pages = connection_.ReadInteger("PRAGMA page_count");
  ASSERT_TRUE(pages.ok());
  ASSERT_TRUE(
      connection_.ReadInteger(absl::StrCat("PRAGMA max_page_count = ", *pages).c_str()).ok());
  const absl::Status full = MigrateSqliteSchema(connection_, "records.db");
  EXPECT_THAT(std::string(full.message()), ::testing::HasSubstr("disk is full"));
}

TEST_F(SqliteRecordsTest, AWriteChangesTheRowThatItNamesAndNoOther) {
  for (const Write& write : Writes()) {
    for (const RecordState state : write.from) {
      SCOPED_TRACE(absl::StrCat(write.name, " from ", static_cast<int>(state)));
      Prepare(state);
      const std::string before = Show(op_);
      const std::string other = Show(other_);
      EXPECT_TRUE(write.run(op_, {token_, kAttempt}).ok());
      EXPECT_NE(Show(op_), before);
      EXPECT_EQ(Show(other_), other);
    }
  }
}

TEST_F(SqliteRecordsTest, AWriteUnderAnotherTokenOrAttemptFailsAndChangesNothing) {
  for (const Write& write : Writes()) {
    for (const RecordState state : write.from) {
      SCOPED_TRACE(absl::StrCat(write.name, " from ", static_cast<int>(state)));
      Prepare(state);
      const std::string before = Show(op_);
      EXPECT_EQ(ReasonOf(write.run(op_, {Uuid::Random(), kAttempt})), Reason::kStoreUnavailable);
      EXPECT_EQ(Show(op_), before);
      if (!write.needs_attempt) continue;
      EXPECT_EQ(ReasonOf(write.run(op_, {token_, kAttempt + 1})), Reason::kStoreUnavailable);
      EXPECT_EQ(Show(op_), before);
    }
  }
}

TEST_F(SqliteRecordsTest, AWriteFromAnotherStateFailsAndChangesNothing) {
  for (const Write& write : Writes()) {
    for (const RecordState state : {RecordState::kReserved, RecordState::kCompleted,
                                    RecordState::kReleased, RecordState::kUnknown}) {
      if (std::count(write.from.begin(), write.from.end(), state) > 0) continue;
      SCOPED_TRACE(absl::StrCat(write.name, " from ", static_cast<int>(state)));
      Prepare(state);
      const std::string before = Show(op_);
      EXPECT_EQ(ReasonOf(write.run(op_, {token_, kAttempt})), Reason::kStoreUnavailable);
      EXPECT_EQ(Show(op_), before);
    }
  }
}

TEST_F(SqliteRecordsTest, AWriteToARowThatIsNotThereFails) {
  for (const Write& write : Writes()) {
    EXPECT_EQ(ReasonOf(write.run(OpFor("missing"), {token_, kAttempt})), Reason::kStoreUnavailable)
        << write.name;
  }
}

TEST_F(SqliteRecordsTest, APageOfTheSweepHasTheRecordsInItsRangeUpToItsLimit) {
  std::vector<RecordId> ids;
  for (int i = 0; i < 6; ++i) {
    const ReserveOp op = OpFor(absl::StrCat("key-", i));
    Insert(op);
    ids.push_back(op.id);
  }
  std::sort(ids.begin(), ids.end());
  const auto page = [this](std::optional<RecordId> after, std::optional<RecordId> until,
                           int limit) {
    auto read = records_->ReadSweepPage(after, until, limit);
    EXPECT_TRUE(read.ok()) << read.status();
    std::vector<RecordId> found;
    for (const SqliteRecords::SweepRow& row : read->rows) found.push_back(row.id);
    EXPECT_EQ(read->looked_at, static_cast<int>(found.size()));
    EXPECT_EQ(read->last, found.empty() ? std::nullopt : std::optional<RecordId>(found.back()));
    return found;
  };
  EXPECT_EQ(page(std::nullopt, std::nullopt, 100), ids);
  EXPECT_EQ(page(std::nullopt, std::nullopt, 2), std::vector<RecordId>({ids[0], ids[1]}));
  EXPECT_EQ(page(ids[1], ids[3], 100), std::vector<RecordId>({ids[2], ids[3]}));
  EXPECT_EQ(page(ids[1], ids[3], 1), std::vector<RecordId>({ids[2]}));
  EXPECT_EQ(page(std::nullopt, ids[0], 100), std::vector<RecordId>({ids[0]}));
  EXPECT_EQ(page(ids[5], std::nullopt, 100), std::vector<RecordId>());
}

// With any SQL that a damaged file contains.
TEST_F(SqliteRecordsTest, TheSchemaCannotBeWrittenBySql) {
  EXPECT_FALSE(connection_.Execute("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema").ok());
  Insert(OpFor("still there"));
}

TEST_F(SqliteRecordsTest, WithoutDetailsAReplyHasItsDigestAlone) {
  Prepare(RecordState::kCompleted);
  const auto whole = records_->Find(op_.id, SqliteRecords::Detail::kWhole);
  const auto slim = records_->Find(op_.id, SqliteRecords::Detail::kSlim);
  ASSERT_TRUE(whole.ok() && whole->has_value());
  ASSERT_TRUE(slim.ok() && slim->has_value());
  EXPECT_EQ((*slim)->record.reply->bytes, "");
  EXPECT_NE((*whole)->record.reply->bytes, "");
  EXPECT_EQ((*slim)->record.reply->digest, (*whole)->record.reply->digest);
}

// Abandoned attempts stay RESERVED until somebody takes them over, or they are forgotten.
TEST_F(SqliteRecordsTest, LapsedReservationsHideNoRunningOne) {
  const absl::Status inserted = connection_.Execute(
      "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)"
      " INSERT INTO records (id, namespace, scope, operation, key, state, attempt, token,"
      " recovering, on_lease_expiry, created_at, lease_expires_at, expires_at, fingerprints)"
      " SELECT randomblob(16), 'n', 's', 'o', CAST(i AS TEXT), 1, 1, randomblob(16),"
      " 0, 1, 0, 1, 9000000000000000, x'00' FROM n");
  ASSERT_TRUE(inserted.ok()) << inserted;
  EXPECT_EQ(records_->OldestReserved(At(absl::ZeroDuration())).value(), std::nullopt);
  Insert(OpFor("running"));
  EXPECT_EQ(records_->OldestReserved(At(absl::Seconds(29))).value(), At(absl::ZeroDuration()));
  EXPECT_EQ(records_->OldestReserved(At(absl::Seconds(30))).value(), std::nullopt);
}

}  // namespace
}  // namespace idempotency::internal

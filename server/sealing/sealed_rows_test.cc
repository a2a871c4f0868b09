// What another hand does to sealed rows: bits, lengths, and columns of other rows. A row gives its
// own reply or none, and its operation does not run again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "core/testing/manual_clock.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/reply.h"
#include "server/sealing/key_ring_source.h"
#include "server/sealing/sealed_store.h"
#include "server/store/reply_envelope.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/store/testing/operations.h"
#include "server/testing/test_key_ring.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A name and a body that are found in a file, should they ever get there.
constexpr char kCanary[] = "canary-5f3759df";

class SealedRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    OpenStore();
    ASSERT_EQ(sqlite3_open(path_.c_str(), &hand_), SQLITE_OK);
    // It writes thousands of rows, which nobody needs after a crash.
    Sql("PRAGMA synchronous = OFF");
  }
  void TearDown() override { sqlite3_close(hand_); }

  void OpenStore() {
    store_.reset();
    SqliteOptions options;
    options.clock = &clock_;
    SealedStoreOptions sealing;
    sealing.clock = &clock_;
    sealing.accept_unsealed = accept_unsealed_;
    store_ =
        std::make_unique<SealedStore>(SqliteStore::Open(path_, options).value(), rings_, sealing);
  }

  // Runs the statement; the rows' first column, as text.
  std::vector<std::string> Sql(const std::string& sql) {
    std::vector<std::string> rows;
    char* error = nullptr;
    const auto add = [](void* to, int, char** values, char**) {
      static_cast<std::vector<std::string>*>(to)->emplace_back(values[0] == nullptr ? ""
                                                                                    : values[0]);
      return 0;
    };
    EXPECT_EQ(sqlite3_exec(hand_, sql.c_str(), add, &rows, &error), SQLITE_OK)
        << sql << ": " << (error == nullptr ? "" : error);
    sqlite3_free(error);
    return rows;
  }
  static std::string Blob(std::string_view bytes) {
    return absl::StrCat("x'", absl::BytesToHexString({bytes.data(), bytes.size()}), "'");
  }
  static std::string Where(const std::string& name) {
    return absl::StrCat(" WHERE id = ",
                        Blob({reinterpret_cast<const char*>(IdNamed(name).bytes().data()), 16}));
  }
  std::string Column(const std::string& column, const std::string& name) {
    const auto rows = Sql(absl::StrCat("SELECT hex(", column, ") FROM records", Where(name)));
    return rows.empty() ? "" : absl::HexStringToBytes(rows[0]);
  }
  void SetReply(const std::string& name, std::string_view bytes) {
    Sql(absl::StrCat("UPDATE records SET reply = ", Blob(bytes), Where(name)));
  }

  absl::StatusOr<Verdict> Reserve(const ReserveOp& op) { return store_->Reserve({&op, 1}).at(0); }
  absl::StatusOr<Record> Get(const std::string& name) {
    const GetOp op = GetNamed(name);
    return store_->Get({&op, 1}).at(0);
  }
  // A completed record whose reply has `body`.
  void Complete(const std::string& name, const std::string& body, ReserveOp op) {
    const absl::StatusOr<Verdict> verdict = Reserve(op);
    ASSERT_NE(As<Reserved>(verdict), nullptr) << verdict.status();
    const CompleteOp complete = CompleteNamed(name, As<Reserved>(verdict)->token, body);
    ASSERT_TRUE(store_->Complete({&complete, 1}).at(0).ok());
  }
  void Complete(const std::string& name, const std::string& body) {
    Complete(name, body, ReserveNamed(name));
  }
  void ExpectReplay(const std::string& name, const std::string& body) {
    const absl::StatusOr<Verdict> verdict = Reserve(ReserveNamed(name));
    ASSERT_NE(As<Replay>(verdict), nullptr) << verdict.status();
    EXPECT_EQ(DecodeReply(As<Replay>(verdict)->reply)->body(), body);
  }
  void ExpectDamaged(const std::string& name, const std::string& how) {
    EXPECT_EQ(ReasonOf(Reserve(ReserveNamed(name)).status()), Reason::kRecordDamaged) << how;
    EXPECT_EQ(ReasonOf(Get(name).status()), Reason::kRecordDamaged) << how;
  }
  // Its own reply, or a refusal; no other reply, and no second run.
  void ExpectOwnOrRefused(const std::string& name, const std::string& body,
                          const std::string& how) {
    const absl::StatusOr<Verdict> verdict = Reserve(ReserveNamed(name));
    if (verdict.ok() && As<Mismatch>(verdict) == nullptr) {
      ASSERT_NE(As<Replay>(verdict), nullptr) << how << ": verdict " << verdict->index();
      EXPECT_EQ(DecodeReply(As<Replay>(verdict)->reply)->body(), body) << how;
    }
    const absl::StatusOr<Record> record = Get(name);
    if (record.ok() && record->reply) {
      EXPECT_EQ(DecodeReply(*record->reply)->body(), body) << how;
    }
  }
  std::string FileText(const std::string& suffix) {
    std::ifstream file(path_ + suffix, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  testing::TempFolder folder_;
  const std::string path_ = folder_.File("records.db");
  ManualClock clock_;
  bool accept_unsealed_ = false;
  const std::shared_ptr<KeyRingSource> rings_ =
      std::make_shared<KeyRingSource>(TestKeyRing(TestKey(1, clock_.Now())));
  std::unique_ptr<SealedStore> store_;
  sqlite3* hand_ = nullptr;
};

class EitherWaySealedRowsTest : public SealedRowsTest, public ::testing::WithParamInterface<bool> {
 protected:
  EitherWaySealedRowsTest() { accept_unsealed_ = GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(AcceptUnsealed, EitherWaySealedRowsTest, ::testing::Bool());

TEST_P(EitherWaySealedRowsTest, EveryBitOfAReplyCounts) {
  Complete("order-1", "paid");
  const std::string reply = Column("reply", "order-1");
  ASSERT_GT(reply.size(), 100U);
  for (std::size_t bit = 0; bit < reply.size() * 8; ++bit) {
    std::string flipped = reply;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    SetReply("order-1", flipped);
    ExpectDamaged("order-1", absl::StrCat("bit ", bit));
  }
  SetReply("order-1", reply);
  ExpectReplay("order-1", "paid");
}

TEST_P(EitherWaySealedRowsTest, EveryLengthOfAReplyCounts) {
  Complete("order-1", "paid");
  const std::string reply = Column("reply", "order-1");
  for (std::size_t size = 0; size < reply.size(); ++size) {
    SetReply("order-1", reply.substr(0, size));
    ExpectDamaged("order-1", absl::StrCat(size, " bytes"));
  }
  SetReply("order-1", reply + '\0');
  ExpectDamaged("order-1", "a byte more");
  SetReply("order-1", reply);
  ExpectReplay("order-1", "paid");
}

TEST_P(EitherWaySealedRowsTest, EveryBitAndLengthOfWhatIsLeftWithoutContentCounts) {
  ReserveOp op = ReserveNamed("order-1");
  op.reply_retention = absl::Minutes(1);
  Complete("order-1", "paid", op);
  clock_.Advance(absl::Minutes(1));
  ASSERT_EQ(store_->Sweep({}).value().replies_dropped, 1);
  const std::string rest = Column("reply", "order-1");
  ASSERT_GT(rest.size(), 60U);
  for (std::size_t bit = 0; bit < rest.size() * 8; ++bit) {
    std::string flipped = rest;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    SetReply("order-1", flipped);
    ExpectDamaged("order-1", absl::StrCat("bit ", bit));
    // Also where the digest, which has no key, is made to fit.
    const Sha256Digest digest = Sha256(flipped);
    Sql(absl::StrCat("UPDATE records SET status_digest = ",
                     Blob({reinterpret_cast<const char*>(digest.data()), digest.size()}),
                     Where("order-1")));
    if (static_cast<unsigned char>(flipped[0]) == 0 || !GetParam()) {
      ExpectDamaged("order-1", absl::StrCat("bit ", bit, " with its digest"));
    }
  }
  for (std::size_t size = 0; size < rest.size(); ++size) {
    SetReply("order-1", rest.substr(0, size));
    ExpectDamaged("order-1", absl::StrCat(size, " bytes"));
  }
}

// By a party that writes rows and has no key: everything about it fits, but it is not sealed.
TEST_F(SealedRowsTest, AReplyThatWasNeverSealedIsRefused) {
  Complete("order-1", "paid");
  const EncodedReply forged = CompleteNamed("order-1", Uuid(), "forged").reply;
  SetReply("order-1", forged.bytes);
  Sql(absl::StrCat(
      "UPDATE records SET reply_digest = ",
      Blob({reinterpret_cast<const char*>(forged.digest.data()), forged.digest.size()}),
      Where("order-1")));
  ExpectDamaged("order-1", "forged");
}

// Also while a store that drops the content has not looked at it yet.
TEST_F(SealedRowsTest, TheSweepLeavesADamagedReplyAsItIs) {
  ReserveOp op = ReserveNamed("order-1");
  op.reply_retention = absl::Minutes(1);
  Complete("order-1", "paid", op);
  std::string reply = Column("reply", "order-1");
  reply.resize(reply.size() / 2);
  SetReply("order-1", reply);
  clock_.Advance(absl::Minutes(1));
  EXPECT_EQ(store_->Sweep({}).value().replies_dropped, 0);
  EXPECT_EQ(Column("reply", "order-1"), reply);
  ExpectDamaged("order-1", "half of it");
}

// Two rows that differ in everything that a row may have, and every column of the one in the other.
class SwappedColumnsTest : public EitherWaySealedRowsTest {
 protected:
  void SetUp() override {
    EitherWaySealedRowsTest::SetUp();
    for (const auto& [name, request] : {std::pair("order-1", 'a'), std::pair("order-2", 'b')}) {
      ReserveOp op = ReserveNamed(name, request);
      op.key.scope = absl::StrCat("scope of ", name);
      op.key.key = name;
      op.key.operation = absl::StrCat("operation of ", name);
      op.key.name_space = absl::StrCat("namespace of ", name);
      op.id = RecordIdFor(op.key);
      op.labels = {{"label", name}};
      op.request_token = Uuid::Random();
      ops_.push_back(op);
      clock_.Advance(absl::Seconds(1));
      const absl::StatusOr<Verdict> verdict = store_->Reserve({&op, 1}).at(0);
      const CompleteOp complete{op.key, op.id, As<Reserved>(verdict)->token,
                                CompleteNamed(name, Uuid(), absl::StrCat("reply of ", name)).reply};
      ASSERT_TRUE(store_->Complete({&complete, 1}).at(0).ok());
    }
    columns_ = Sql("SELECT name FROM pragma_table_info('records')");
    Sql("CREATE TEMP TABLE before AS SELECT * FROM records");
    Sql("CREATE TEMP TABLE other AS SELECT * FROM records");
  }

  // Puts each column of `swapped` into the other row.
  void Swap(const std::vector<std::string>& swapped) {
    std::vector<std::string> values;
    for (const std::string& column : columns_) {
      const bool swap = std::find(swapped.begin(), swapped.end(), column) != swapped.end();
      values.push_back(absl::StrCat(swap ? "other." : "before.", column));
    }
    Sql("DELETE FROM records");
    Sql(absl::StrCat("INSERT INTO records (", absl::StrJoin(columns_, ", "), ") SELECT ",
                     absl::StrJoin(values, ", "),
                     " FROM before JOIN other ON other.id <> before.id"));
  }

  // The reason of each record's refusal; "" for its own reply, "mismatch" for that verdict.
  std::vector<std::string> Outcomes(const std::string& how) {
    std::vector<std::string> outcomes;
    for (const ReserveOp& op : ops_) {
      const std::string body = "reply of " + op.key.key;
      const absl::StatusOr<Verdict> verdict = Reserve(op);
      if (!verdict.ok()) {
        outcomes.emplace_back(ReasonName(ReasonOf(verdict.status()).value()));
      } else if (As<Mismatch>(verdict) != nullptr) {
        outcomes.emplace_back("mismatch");
      } else if (As<Replay>(verdict) != nullptr) {
        EXPECT_EQ(DecodeReply(As<Replay>(verdict)->reply)->body(), body) << how;
        outcomes.emplace_back();
      } else {
        ADD_FAILURE() << how << ": verdict " << verdict->index();
        outcomes.emplace_back("run");
      }
      // An operator's view, by the id alone.
      const GetOp get{op.id, std::nullopt};
      const absl::StatusOr<Record> record = store_->Get({&get, 1}).at(0);
      if (record.ok()) {
        EXPECT_EQ(DecodeReply(*record->reply)->body(), body) << how;
        EXPECT_EQ(record->key.key, op.key.key) << how;
      }
    }
    return outcomes;
  }
  std::vector<std::string> Both(const std::string& outcome) { return {outcome, outcome}; }

  std::vector<ReserveOp> ops_;
  std::vector<std::string> columns_;
};
INSTANTIATE_TEST_SUITE_P(AcceptUnsealed, SwappedColumnsTest, ::testing::Bool());

TEST_P(SwappedColumnsTest, NoColumnOfAnotherRowOpens) {
  ASSERT_GE(columns_.size(), 20U);
  EXPECT_EQ(Outcomes("as they are"), Both(""));
  for (const std::string& column : columns_) {
    Swap({column});
    const std::vector<std::string> outcomes = Outcomes(column);
    if (column == "reply" || column == "reply_digest" || column == "token") {
      EXPECT_EQ(outcomes, Both("RECORD_DAMAGED")) << column;
    } else if (column == "fingerprints") {
      EXPECT_EQ(outcomes, Both("mismatch")) << column;
    } else if (column == "namespace" || column == "scope" || column == "operation" ||
               column == "key" || column == "id") {
      EXPECT_EQ(outcomes, Both("RECORD_ID_COLLISION")) << column;
    }
  }
  Swap({});
  EXPECT_EQ(Outcomes("as they were"), Both(""));
}

// The columns that make up an attempt and its reply, in every combination; and with the key's parts
// as well, a whole row under another id.
TEST_P(SwappedColumnsTest, NoColumnsOfAnotherRowTogetherOpen) {
  const std::vector<std::string> attempt = {
      "token", "attempt", "request_token", "fingerprints", "completed_at", "reply_digest", "reply"};
  for (unsigned set = 1; set < 1U << attempt.size(); ++set) {
    std::vector<std::string> swapped;
    for (std::size_t i = 0; i < attempt.size(); ++i) {
      if ((set >> i & 1U) != 0) swapped.push_back(attempt[i]);
    }
    Swap(swapped);
    const std::vector<std::string> outcomes = Outcomes(absl::StrJoin(swapped, " "));
    if ((set & 0b1100001U) == 0b1100001U && (set & 0b1000U) == 0) {
      EXPECT_EQ(outcomes, Both("RECORD_DAMAGED")) << "all of an attempt but its fingerprint";
    }
  }
  Swap({"id"});
  EXPECT_EQ(Outcomes("under the other's id"), Both("RECORD_ID_COLLISION"));
}

TEST_F(SealedRowsTest, EveryBitAndLengthOfACheckpointCounts) {
  const absl::StatusOr<Verdict> first = Reserve(ReserveNamed("order-1"));
  ExtendOp extend = ExtendNamed("order-1", As<Reserved>(first)->token);
  extend.checkpoint = "step 1";
  ASSERT_TRUE(store_->Extend({&extend, 1}).at(0).ok());
  const std::string stored =
      absl::HexStringToBytes(Sql("SELECT hex(checkpoint) FROM checkpoints")[0]);
  std::vector<std::string> damaged;
  for (std::size_t bit = 0; bit < stored.size() * 8; ++bit) {
    damaged.push_back(stored);
    char& byte = damaged.back()[bit / 8];
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
  }
  for (std::size_t size = 1; size < stored.size(); ++size) {
    damaged.push_back(stored.substr(0, size));
  }
  for (const std::string& bytes : damaged) {
    Sql(absl::StrCat("UPDATE checkpoints SET checkpoint = ", Blob(bytes)));
    clock_.Advance(absl::Minutes(1));
    // Never handed out, so nothing runs.
    ASSERT_EQ(ReasonOf(Reserve(ReserveNamed("order-1")).status()), Reason::kRecordDamaged);
    clock_.Advance(-absl::Minutes(1));
    Sql("UPDATE records SET lease_expires_at = created_at");
  }
  Sql(absl::StrCat("UPDATE checkpoints SET checkpoint = ", Blob(stored)));
  const absl::StatusOr<Verdict> next = Reserve(ReserveNamed("order-1"));
  ASSERT_NE(As<Reserved>(next), nullptr) << next.status();
  EXPECT_EQ(As<Reserved>(next)->checkpoint, "step 1");
}

TEST_F(SealedRowsTest, TheCheckpointOfAnotherRecordDoesNotOpen) {
  for (const char* const name : {"order-1", "order-2"}) {
    const absl::StatusOr<Verdict> verdict = Reserve(ReserveNamed(name));
    ExtendOp extend = ExtendNamed(name, As<Reserved>(verdict)->token);
    extend.checkpoint = absl::StrCat("step of ", name);
    ASSERT_TRUE(store_->Extend({&extend, 1}).at(0).ok());
  }
  Sql("UPDATE checkpoints SET checkpoint = (SELECT max(checkpoint) FROM checkpoints)");
  clock_.Advance(absl::Minutes(1));
  int damaged = 0;
  for (const char* const name : {"order-1", "order-2"}) {
    const absl::StatusOr<Verdict> verdict = Reserve(ReserveNamed(name));
    if (ReasonOf(verdict.status()) == Reason::kRecordDamaged) ++damaged;
    if (As<Reserved>(verdict) != nullptr) {
      EXPECT_EQ(As<Reserved>(verdict)->checkpoint, absl::StrCat("step of ", name));
    }
  }
  EXPECT_EQ(damaged, 1);
}

TEST_F(SealedRowsTest, NothingOfACallerIsFoundInTheFiles) {
  ReserveOp op = ReserveNamed("order-1");
  op.fingerprints = {{1, std::string(kCanary) + std::string(32 - sizeof(kCanary) + 1, 'f')}};
  const absl::StatusOr<Verdict> verdict = Reserve(op);
  ExtendOp extend = ExtendNamed("order-1", As<Reserved>(verdict)->token);
  extend.checkpoint = absl::StrCat("step of ", kCanary);
  ASSERT_TRUE(store_->Extend({&extend, 1}).at(0).ok());
  v1::Reply reply;
  reply.set_message(absl::StrCat("message of ", kCanary));
  reply.set_body(absl::StrCat("body of ", kCanary));
  reply.set_details(kCanary);
  reply.add_trailing_metadata()->set_value(kCanary);
  const CompleteOp complete{op.key, op.id, As<Reserved>(verdict)->token, EncodeReply(reply)};
  ASSERT_TRUE(store_->Complete({&complete, 1}).at(0).ok());
  const auto replay = Reserve(op);
  ASSERT_NE(As<Replay>(replay), nullptr);
  EXPECT_EQ(As<Replay>(replay)->reply, EncodeReply(reply));
  // The log has the rows, then the database as well.
  const std::string digest(complete.reply.digest.begin(), complete.reply.digest.end());
  for (const bool copied : {false, true}) {
    if (copied) {
      Sql("PRAGMA wal_checkpoint(FULL)");
      EXPECT_THAT(FileText(""), HasSubstr("order-1")) << "the key is not sealed";
    } else {
      EXPECT_THAT(FileText("-wal"), HasSubstr("order-1")) << "the key is not sealed";
    }
    for (const char* const suffix : {"", "-wal", "-shm"}) {
      EXPECT_THAT(FileText(suffix), Not(HasSubstr(kCanary))) << suffix;
      EXPECT_THAT(FileText(suffix), Not(HasSubstr(digest))) << suffix;
    }
  }
}

TEST_F(SealedRowsTest, EqualRepliesAndRequestsLookDifferent) {
  Complete("order-1", "paid");
  Complete("order-2", "paid");
  for (const char* const column : {"reply_digest", "fingerprints", "reply"}) {
    EXPECT_NE(Column(column, "order-1"), Column(column, "order-2")) << column;
  }
}

// One nonce for two texts under one key would give both away.
TEST_F(SealedRowsTest, NoNonceIsUsedTwiceUnderTheKeyOfAnAttempt) {
  const Uuid token = Uuid::Random();
  const Sealer sealer(rings_->Current(), clock_.Now(), /*accept_unsealed=*/false);
  std::set<std::string> nonces;
  for (int i = 0; i < 10; ++i) {
    const EncodedReply sealed = sealer.Seal(CompleteNamed("order-1", token))->reply;
    const auto envelope = ReplyEnvelope::Parse(sealed);
    ASSERT_TRUE(envelope.ok());
    nonces.emplace(envelope->status.substr(0, ReplyEnvelope::kNonceBytes));
    nonces.emplace(envelope->content->substr(0, ReplyEnvelope::kNonceBytes));
  }
  EXPECT_EQ(nonces.size(), 20U);
}

}  // namespace
}  // namespace idempotency::internal

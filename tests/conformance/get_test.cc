#include <optional>
#include <string>
#include <vector>

#include "grpc_idempotency/record_key.h"
#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

class GetTest : public StoreTest {};
IDEMPOTENCY_FOR_EVERY_STORE(GetTest);

TEST_P(GetTest, WithoutARecordThereIsNothing) {
  const absl::StatusOr<Record> record = Get(OpFor("never"));
  EXPECT_THAT(record, FailsWith(Reason::kRecordNotFound));
  EXPECT_EQ(record.status().code(), absl::StatusCode::kNotFound);
}

TEST_P(GetTest, ByIdAlone) {
  const ReserveOp op = OpFor("by-id");
  MustReserve(op);
  const GetOp get{op.id, std::nullopt};
  const absl::StatusOr<Record> record = store().Get({&get, 1}).at(0);
  ASSERT_THAT(record, Succeeds());
  EXPECT_EQ(record->key, op.key);
}

// A record's id and its key come from different callers.
TEST_P(GetTest, SeveralReadsOfARecordInABatch) {
  const ReserveOp op = OpFor("popular");
  ASSERT_THAT(Complete(op, MustReserve(op).token, "ch_1"), Succeeds());
  const GetOp by_id{op.id, std::nullopt};
  const GetOp by_key{op.id, op.key};
  const std::vector<GetOp> gets = {by_id, by_key, by_id};
  for (const absl::StatusOr<Record>& record : store().Get(gets)) {
    ASSERT_THAT(record, Succeeds());
    EXPECT_EQ(record->key, op.key);
    EXPECT_EQ(record->reply->bytes, ReplyWith("ch_1").bytes);
  }
}

TEST_P(GetTest, ChangesNothing) {
  ReserveOp op = OpFor("lapsed");
  op.on_lease_expiry = LeaseExpiry::kRequireRecovery;
  MustReserve(op);
  Advance(absl::Minutes(1));
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved);
  EXPECT_EQ(MustGet(op).state, RecordState::kReserved);
}

TEST_P(GetTest, EveryTextOfTheKeyComesBack) {
  ReserveOp op = OpFor("!~'\"\\%_;--");
  op.key.scope = "Grüße/日本 ' \" \\ %";
  op.key.operation = std::string(512, '/');
  op.key.key = std::string(255, '~');
  op.labels = {{"empty", ""}, {"quote", "'\"\\{}"}, {"utf8", "é"}};
  op.id = RecordIdFor(op.key);
  MustReserve(op);
  const Record record = MustGet(op);
  EXPECT_EQ(record.key, op.key);
  EXPECT_EQ(record.labels, op.labels);
}

}  // namespace
}  // namespace idempotency::internal

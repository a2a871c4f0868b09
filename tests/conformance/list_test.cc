// Lists of records: filters, pages, and pages while records change.
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/limits.h"
#include "tests/conformance/admin_fixture.h"

namespace idempotency::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class ListTest : public AdminTest {
 protected:
  ReserveOp Add(const std::string& scope, const std::string& operation, const std::string& key) {
    ReserveOp op = OpFor(key);
    op.key.scope = scope;
    op.key.operation = operation;
    op.id = RecordIdFor(op.key);
    MustReserve(op);
    return op;
  }
  static ListOp All() {
    ListOp op;
    op.name_space = "payments";
    return op;
  }
};
IDEMPOTENCY_FOR_EVERY_STORE(ListTest);

TEST_P(ListTest, IsEmptyForANamespaceWithoutRecords) {
  Add("a", "o", "k");
  ListOp op = All();
  op.name_space = "orders";
  EXPECT_THAT(ListAll(op), IsEmpty());
}

TEST_P(ListTest, FiltersByEveryPart) {
  Add("a", "/Pay", "1");
  Add("a", "/Refund", "2");
  Add("b", "/Pay", "3");
  ListOp op = All();
  EXPECT_THAT(KeysOf(ListAll(op)), UnorderedElementsAre("1", "2", "3"));
  op.scope = "a";
  EXPECT_THAT(KeysOf(ListAll(op)), UnorderedElementsAre("1", "2"));
  op.operation = "/Pay";
  EXPECT_THAT(KeysOf(ListAll(op)), ElementsAre("1"));
  op.scope.reset();
  EXPECT_THAT(KeysOf(ListAll(op)), UnorderedElementsAre("1", "3"));
}

TEST_P(ListTest, NamesWithOneBeginningOfTheirHashesAreTwo) {
  const auto [one, other] = NamesOfOneHash();
  Add(one, "/Pay", "1");
  Add(other, "/Pay", "2");
  ReserveOp elsewhere = OpFor("3");
  elsewhere.key.name_space = other;
  elsewhere.id = RecordIdFor(elsewhere.key);
  MustReserve(elsewhere);
  ListOp op = All();
  op.scope = one;
  EXPECT_THAT(KeysOf(ListAll(op)), ElementsAre("1"));
  op.scope.reset();
  op.name_space = one;
  EXPECT_THAT(ListAll(op), IsEmpty());
}

TEST_P(ListTest, FiltersByStateAndAnswersWithoutReplies) {
  const Case live = Make(Situation::kLive);
  const Case unknown = Make(Situation::kUnknown);
  const Case completed = Make(Situation::kCompleted);
  const Case released = Make(Situation::kReleased);
  const auto in_state = [&](RecordState state, bool in_scope) {
    ListOp op = All();
    op.state = state;
    if (in_scope) op.scope = "tenant-1";
    return KeysOf(ListAll(op));
  };
  for (const bool in_scope : {false, true}) {
    EXPECT_THAT(in_state(RecordState::kReserved, in_scope), ElementsAre(live.op.key.key));
    EXPECT_THAT(in_state(RecordState::kUnknown, in_scope), ElementsAre(unknown.op.key.key));
    EXPECT_THAT(in_state(RecordState::kCompleted, in_scope), ElementsAre(completed.op.key.key));
    EXPECT_THAT(in_state(RecordState::kReleased, in_scope), ElementsAre(released.op.key.key));
  }
  ListOp op = All();
  op.state = RecordState::kUnknown;
  op.scope = "tenant-2";
  EXPECT_THAT(ListAll(op), IsEmpty());
  op = All();
  op.state = RecordState::kCompleted;
  const std::vector<Record> records = ListAll(op);
  ASSERT_THAT(records, SizeIs(1));
  EXPECT_FALSE(records[0].reply);
  EXPECT_TRUE(records[0].completed_at);
}

TEST_P(ListTest, LeavesOutWhatIsForgotten) {
  Make(Situation::kForgotten);
  Make(Situation::kTombstone);
  const Case past = Make(Situation::kUnknownPastExpiry);
  EXPECT_THAT(KeysOf(ListAll(All())), ElementsAre(past.op.key.key));
}

TEST_P(ListTest, FiltersByAgeForEveryKindOfKey) {
  std::vector<std::string> keys;
  std::vector<absl::Time> times;
  // Keys of every age that is allowed, made before, with and after their records.
  for (int i = 0; i < 4; ++i) {
    const absl::Duration age = absl::Hours(23) * (i - 1);
    for (const std::string& key : {absl::StrCat("opaque-", i), KeyMadeAt(Now() - age / 2)}) {
      Add("a", "o", key);
      keys.push_back(key);
      times.push_back(Now());
    }
    Advance(absl::Hours(3));
  }
  for (const bool in_scope : {false, true}) {
    ListOp op = All();
    if (in_scope) op.scope = "a";
    op.limit = 2;
    op.created_after = times[2];
    op.created_before = times[6];
    EXPECT_THAT(KeysOf(ListAll(op)), UnorderedElementsAre(keys[2], keys[3], keys[4], keys[5]));
    op.created_after.reset();
    EXPECT_THAT(ListAll(op), SizeIs(6));
    op.created_before.reset();
    op.created_after = times[6];
    EXPECT_THAT(KeysOf(ListAll(op)), UnorderedElementsAre(keys[6], keys[7]));
  }
}

// The window of a namespace may be longer than the default one.
TEST_P(ListTest, ARecordWhoseKeyIsOldIsListedByItsOwnAge) {
  const auto add = [&](absl::Duration age, absl::Duration window) {
    ReserveOp op = OpFor(KeyMadeAt(Now() - age));
    op.key.scope = "a";
    op.id = RecordIdFor(op.key);
    op.window = window;
    MustReserve(op);
    return op.key.key;
  };
  const absl::Time start = Now();
  const std::string days = add(5 * absl::Hours(24), 7 * absl::Hours(24));
  const std::string year = add(365 * absl::Hours(24), limits::kMaxRetention);
  Advance(absl::Minutes(30));
  for (const bool in_scope : {false, true}) {
    ListOp op = All();
    if (in_scope) op.scope = "a";
    op.created_after = start - absl::Minutes(30);
    EXPECT_THAT(KeysOf(ListAll(op)), UnorderedElementsAre(days, year)) << in_scope;
    op.created_after = start + absl::Minutes(1);
    EXPECT_THAT(ListAll(op), IsEmpty()) << in_scope;
  }
}

TEST_P(ListTest, FiltersByParent) {
  const RecordKey parent = {"orders", "tenant-1", "/orders.v1.Orders/Place", "parent-1"};
  const auto child_of = [&](const RecordKey& of, const std::string& key) {
    ReserveOp op = OpFor(key);
    op.parent = of;
    MustReserve(op);
  };
  child_of(parent, "one");
  child_of(parent, "two");
  RecordKey other = parent;
  other.scope = "tenant-2";
  child_of(other, "three");
  other = parent;
  other.key = "parent-2";
  child_of(other, "four");
  MustReserve(OpFor("none"));
  ListOp op = All();
  op.parent = parent;
  op.limit = 1;
  const std::vector<Record> children = ListAll(op);
  EXPECT_THAT(KeysOf(children), UnorderedElementsAre("one", "two"));
  for (const Record& child : children) EXPECT_EQ(child.parent, parent);
  op.name_space = "orders";
  EXPECT_THAT(ListAll(op), IsEmpty());
}

TEST_P(ListTest, APageBeginsWhereTheLastOneEnded) {
  std::set<std::string> keys;
  for (int scope = 0; scope < 3; ++scope) {
    for (int i = 0; i < 5; ++i) {
      const std::string key = i % 2 == 0 ? KeyMadeAt(Now()) : absl::StrCat(scope, "/", i);
      Add(absl::StrCat("s", scope), "o", key);
      keys.insert(key);
    }
  }
  for (int limit = 1; limit <= 16; ++limit) {
    ListOp op = All();
    op.limit = limit;
    const std::vector<std::string> listed = KeysOf(ListAll(op));
    EXPECT_EQ(listed.size(), keys.size()) << limit;
    EXPECT_EQ(std::set<std::string>(listed.begin(), listed.end()), keys) << limit;
  }
}

// Records come, are completed and go while pages are read.
TEST_P(ListTest, NoRecordTwiceAndNoneThatStayedLeftOut) {
  std::set<std::string> stay;
  for (int i = 0; i < 40; ++i) {
    const std::string key = absl::StrCat("stays-", i);
    Add(absl::StrCat("s", i % 4), "o", key);
    stay.insert(key);
  }
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    pthread_setname_np(pthread_self(), "writer");
    // Bounded: a list that does not keep up with the writer would not end.
    for (int i = 0; !stop && i < 300; ++i) {
      ReserveOp op = OpFor(absl::StrCat("comes-", i));
      op.key.scope = absl::StrCat("s", i % 4);
      op.id = RecordIdFor(op.key);
      const auto verdict = Reserve(op);
      if (!verdict.ok() || !std::holds_alternative<Reserved>(*verdict)) continue;
      const Uuid token = std::get<Reserved>(*verdict).token;
      if (i % 3 == 0) Complete(op, token).IgnoreError();
      if (i % 3 == 1) Release(op, token, /*outcome_unknown=*/true).IgnoreError();
      PurgeOp purge;
      purge.name_space = "payments";
      purge.key = op.key;
      purge.force = true;
      purge.note = Note();
      if (i % 5 == 0) store().Purge(purge).IgnoreError();
    }
  });
  for (int pass = 0; pass < 5; ++pass) {
    ListOp op = All();
    op.limit = 3;
    std::set<std::string> listed;
    for (const Record& record : ListAll(op)) {
      const std::string name = record.id.ToString();
      EXPECT_TRUE(listed.insert(name).second) << "twice: " << record.key.key;
      listed.insert(record.key.key);
    }
    EXPECT_TRUE(std::includes(listed.begin(), listed.end(), stay.begin(), stay.end()));
  }
  stop = true;
  writer.join();
}

}  // namespace
}  // namespace idempotency::internal

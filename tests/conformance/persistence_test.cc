#include <algorithm>
#include <string>
#include <vector>

#include "tests/conformance/store_fixture.h"

namespace idempotency::internal {
namespace {

// All but those that give a reason why they forget.
std::vector<StoreUnderTest> DurableStores() {
  std::vector<StoreUnderTest> stores = StoresUnderTest();
  stores.erase(std::remove_if(stores.begin(), stores.end(),
                              [](const auto& store) { return store.forgets_because.has_value(); }),
               stores.end());
  return stores;
}

class PersistenceTest : public StoreTest {};
INSTANTIATE_TEST_SUITE_P(Stores, PersistenceTest, ::testing::ValuesIn(DurableStores()), StoreName);

TEST_P(PersistenceTest, EveryStateIsThereAfterARestart) {
  ReserveOp reserved = OpFor("reserved");
  reserved.request_token = Uuid::Random();
  reserved.labels = {{"build", "42"}};
  reserved.parent = reserved.key;
  const Reserved grant = MustReserve(reserved);
  ASSERT_THAT(Extend(reserved, grant.token, absl::Seconds(30), "step 1"), Succeeds());
  const ReserveOp completed = OpFor("completed");
  ASSERT_THAT(Complete(completed, MustReserve(completed).token), Succeeds());
  const ReserveOp released = OpFor("released");
  ASSERT_THAT(Release(released, MustReserve(released).token), Succeeds());
  const ReserveOp unknown = OpFor("unknown");
  ASSERT_THAT(Release(unknown, MustReserve(unknown).token, true), Succeeds());
  const std::vector<ReserveOp> all = {reserved, completed, released, unknown};
  std::vector<std::string> before;
  for (const ReserveOp& op : all) before.push_back(Describe(Get(op)));

  ASSERT_THAT(harness().Reopen(), Succeeds());

  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(Describe(Get(all[i])), before[i]);
  const Reserved again = MustReserve(reserved);
  EXPECT_EQ(again.token, grant.token);
  EXPECT_EQ(again.checkpoint, "step 1");
  EXPECT_EQ(Expect<Replay>(Reserve(completed)).reply, ReplyWith("paid"));
  EXPECT_EQ(MustReserve(released).attempt, 2u);
  Expect<OutcomeUnknown>(Reserve(unknown));
  EXPECT_THAT(Complete(reserved, grant.token), Succeeds());
}

TEST_P(PersistenceTest, ManyRestarts) {
  const ReserveOp op = OpFor("attempts");
  for (std::uint32_t attempt = 1; attempt <= 5; ++attempt) {
    EXPECT_EQ(MustReserve(op).attempt, attempt);
    ASSERT_THAT(harness().Reopen(), Succeeds());
    Advance(absl::Minutes(1));
  }
}

}  // namespace
}  // namespace idempotency::internal

// The suites that a store under test names exist: a misspelt one would leave its tests out.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/conformance/store_harness.h"

namespace idempotency::internal {
namespace {

TEST(SuitesUnderTest, Exist) {
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  std::set<std::string> existing;
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    existing.insert(all.GetTestSuite(i)->name());
  }
  for (const StoreUnderTest& store : StoresUnderTest()) {
    for (const std::string& suite : store.suites) {
      EXPECT_EQ(existing.count(absl::StrCat("Stores/", suite)), 1u) << store.name << " " << suite;
    }
  }
}

}  // namespace
}  // namespace idempotency::internal

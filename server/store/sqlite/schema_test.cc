#include "server/store/sqlite/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/support/temp_folder.h"

namespace idempotency::internal {
namespace {

// The reason is the failed step's, not that of the rollback, which succeeds.
TEST(SqliteSchemaTest, AFullDiskIsNamed) {
  const testing::TempFolder folder;
  const std::string path = folder.File("records.db");
  SqliteConnection connection;
  ASSERT_EQ(connection.Open(path, absl::Seconds(5)), 0);
  ASSERT_TRUE(connection.Execute("PRAGMA max_page_count = 4").ok());
  const absl::Status migrated = MigrateSqliteSchema(connection, path);
  EXPECT_EQ(migrated.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(migrated.message()), ::testing::HasSubstr("full"));
}

}  // namespace
}  // namespace idempotency::internal

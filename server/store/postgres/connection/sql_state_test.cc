#include "server/store/postgres/connection/sql_state.h"

#include <gtest/gtest.h>

namespace idempotency::internal {
namespace {

TEST(SqlStateTest, IsReadFromTheFailure) {
  EXPECT_EQ(SqlStateOf(absl::UnavailableError("SQLSTATE 57014")), "57014");
  EXPECT_EQ(SqlStateOf(absl::InternalError("duplicate key of SQLSTATE 1 (SQLSTATE 23505)")),
            "23505");
  EXPECT_EQ(SqlStateOf(absl::DeadlineExceededError("locked by another session")), "");
  EXPECT_EQ(SqlStateOf(absl::OkStatus()), "");
}

TEST(SqlStateTest, OnlyWhatFailsAgainIsLasting) {
  for (const char* const state : {"0A000", "22P02", "3F000", "42501", "42P01", "42703"}) {
    EXPECT_TRUE(IsLasting(state)) << state;
  }
  for (const char* const state : {"", "08006", "40001", "40P01", "53100", "53200", "53300", "54000",
                                  "55P03", "57014", "57P01", "58030", "XX000", "XX001"}) {
    EXPECT_FALSE(IsLasting(state)) << state;
  }
}

}  // namespace
}  // namespace idempotency::internal

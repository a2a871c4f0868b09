#include "server/store/postgres/batched/columns.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace idempotency::internal {
namespace {

std::string Encoded(PostgresArray array) { return std::move(array).Encode(); }

TEST(ColumnsTest, AColumnHasAValueOfEachRowInTheirOrder) {
  PostgresArray expected(PostgresType::kInt4);
  expected.AppendInt4(3);
  expected.AppendNull();
  expected.AppendInt4(-1);
  const std::vector<std::optional<std::int32_t>> rows = {3, std::nullopt, -1};
  EXPECT_EQ(Encoded(Column(PostgresType::kInt4, rows, [](const auto& row) { return row; })),
            Encoded(std::move(expected)));
}

TEST(ColumnsTest, KeysAreFourColumnsAndNoKeyIsNullInEach) {
  const RecordKey key{"shop", "alice", "/shop.v1.Shop/Buy", "order-1"};
  const std::vector<const RecordKey*> rows = {nullptr, &key};
  PostgresParameters parameters;
  AddKeyColumns(
      rows, [](const RecordKey* row) { return row; }, parameters);
  ASSERT_EQ(parameters.values().size(), 4u);
  int column = 0;
  for (const std::string& part : {key.name_space, key.scope, key.operation, key.key}) {
    PostgresArray expected(PostgresType::kText);
    expected.AppendNull();
    expected.AppendBytes(part);
    EXPECT_EQ(parameters.values()[column++], Encoded(std::move(expected))) << part;
  }
}

}  // namespace
}  // namespace idempotency::internal

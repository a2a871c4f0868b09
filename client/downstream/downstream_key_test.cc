#include "client/downstream/downstream_key.h"

#include <gtest/gtest.h>

#include <set>

namespace idempotency::internal {
namespace {

const absl::Time kCreatedAt = absl::FromUnixMillis(1688000000000);
const RecordId kRecordId = *RecordId::Parse("01890a5d-ac96-774b-bcce-b302099a8057");
constexpr char kCharge[] = "/payments.v1.Payments/Charge";

// Computed with another implementation (Python's hmac). They are the vectors of docs/workflows.md.
TEST(DownstreamKeyTest, KnownValues) {
  EXPECT_EQ(DownstreamKey("payments", {kCreatedAt, kRecordId, kCharge, ""}),
            "018904a3-f000-7b6b-9882-5255d8613d43");
  EXPECT_EQ(DownstreamKey("payments", {kCreatedAt, kRecordId, "", "item-3"}),
            "018904a3-f000-7215-bb83-09200bbd7b6e");
  EXPECT_EQ(DownstreamKey("0123456789abcdef", {kCreatedAt, kRecordId, "", "item-3"}),
            "018904a3-f000-72ac-9f2b-751033fdac3a");
  const RecordId other = *RecordId::Parse("81890a5d-ac96-774b-bcce-b302099a8057");
  EXPECT_EQ(DownstreamKey("payments", {kCreatedAt + absl::Milliseconds(1), other, "", kCharge}),
            "018904a3-f001-7516-af59-f2846be6f4e8");
}

// A store may answer with more digits in one case than in another.
TEST(DownstreamKeyTest, LessThanAMillisecondMakesNoDifference) {
  const DownstreamCall call{kCreatedAt, kRecordId, "", "a"};
  DownstreamCall later = call;
  later.created_at += absl::Microseconds(999);
  EXPECT_EQ(DownstreamKey("s", call), DownstreamKey("s", later));
}

TEST(DownstreamKeyTest, EveryPartCounts) {
  const RecordId other = *RecordId::Parse("01890a5d-ac96-774b-bcce-b302099a8058");
  const std::set<std::string> keys = {
      DownstreamKey("s", {kCreatedAt, kRecordId, "", "a"}),
      DownstreamKey("t", {kCreatedAt, kRecordId, "", "a"}),
      DownstreamKey("s", {kCreatedAt, other, "", "a"}),
      DownstreamKey("s", {kCreatedAt, kRecordId, "a", ""}),
      DownstreamKey("s", {kCreatedAt, kRecordId, "", "b"}),
      DownstreamKey("s", {kCreatedAt + absl::Milliseconds(1), kRecordId, "", "a"}),
  };
  EXPECT_EQ(keys.size(), 6u);
}

// The callee's window is counted from the time in the key.
TEST(DownstreamKeyTest, ContainsTheStartOfTheParent) {
  const auto key = Uuid::Parse(DownstreamKey("s", {kCreatedAt, kRecordId, "", "a"}));
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->TimeOrderedAt(), kCreatedAt);
}

}  // namespace
}  // namespace idempotency::internal

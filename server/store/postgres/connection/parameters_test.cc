#include "server/store/postgres/connection/parameters.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace idempotency::internal {
namespace {

std::string Hex(const std::string& bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const unsigned char byte : bytes) {
    hex.push_back(kDigits[byte >> 4]);
    hex.push_back(kDigits[byte & 0xF]);
  }
  return hex;
}

std::string Encoded(PostgresArray array) { return std::move(array).Encode(); }

// One dimension, whether there are NULLs, the element's type; the number of elements, the lower
// bound 1.
TEST(PostgresArrayTest, IsAsTheProtocolHasIt) {
  PostgresArray array(PostgresType::kInt2);
  array.AppendInt2(258);
  array.AppendInt2(-1);
  EXPECT_EQ(Hex(Encoded(array)),
            "00000001"
            "00000000"
            "00000015"
            "00000002"
            "00000001"
            "000000020102"
            "00000002ffff");
}

TEST(PostgresArrayTest, ANullIsALengthOfMinusOneAndAnnouncedAhead) {
  PostgresArray array(PostgresType::kBytea);
  array.AppendNull();
  array.AppendBytes(std::string("\0x", 2));
  array.AppendBytes("");
  EXPECT_EQ(Hex(Encoded(array)),
            "00000001"
            "00000001"
            "00000011"
            "00000003"
            "00000001"
            "ffffffff"
            "000000020078"
            "00000000");
}

TEST(PostgresArrayTest, OneOfNothingButNullsIsEmpty) {
  PostgresArray array(PostgresType::kInt4);
  const std::string empty = "000000000000000000000017";
  EXPECT_EQ(Hex(Encoded(array)), empty);
  array.AppendNull();
  EXPECT_EQ(Hex(Encoded(array)), empty);
  array.AppendInt4(1);
  EXPECT_NE(Hex(Encoded(array)), empty);
}

TEST(PostgresArrayTest, TimesCountMicrosecondsSinceTheYear2000) {
  const absl::Time epoch = absl::FromUnixSeconds(946'684'800);
  EXPECT_EQ(ToPostgresMicros(epoch), 0);
  EXPECT_EQ(ToPostgresMicros(epoch + absl::Microseconds(1)), 1);
  EXPECT_EQ(FromPostgresMicros(-1), epoch - absl::Microseconds(1));
  PostgresArray array(PostgresType::kTimestamptz);
  array.AppendTime(epoch + absl::Microseconds(258));
  const std::string bytes = Encoded(array);
  EXPECT_EQ(Hex(bytes.substr(bytes.size() - 12)), "000000080000000000000102");
}

TEST(PostgresArrayTest, IntervalsHaveNoDaysAndNoMonths) {
  PostgresArray array(PostgresType::kInterval);
  array.AppendInterval(absl::Microseconds(258));
  const std::string bytes = Encoded(array);
  EXPECT_EQ(Hex(bytes.substr(bytes.size() - 20)), "0000001000000000000001020000000000000000");
}

TEST(PostgresArrayTest, TruthIsOneByte) {
  PostgresArray array(PostgresType::kBool);
  array.AppendBool(true);
  array.AppendBool(false);
  const std::string bytes = Encoded(array);
  EXPECT_EQ(Hex(bytes.substr(bytes.size() - 10)), "00000001010000000100");
}

TEST(PostgresParametersTest, StandInTheirOrderAndThoseOfOthersBehindThem) {
  PostgresParameters first;
  first.Add(std::int32_t{1});
  first.Add(FromPostgresMicros(2));
  PostgresParameters second;
  Uuid::Bytes bytes{};
  bytes[15] = 3;
  second.Add(Uuid(bytes));
  first.Append(std::move(second));
  ASSERT_EQ(first.values().size(), 3u);
  EXPECT_EQ(Hex(first.values()[0]), "00000001");
  EXPECT_EQ(Hex(first.values()[1]), "0000000000000002");
  EXPECT_EQ(Hex(first.values()[2]), "00000000000000000000000000000003");
}

}  // namespace
}  // namespace idempotency::internal

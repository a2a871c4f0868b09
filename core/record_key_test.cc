#include "grpc_idempotency/record_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/limits.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kVersion7 = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f";

RecordKey KeyOf(std::string_view key) {
  return {"payments", "tenant-42", "/payments.v1.Payments/Charge", std::string(key)};
}

std::string FieldOf(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  return details.violations.empty() ? "" : details.violations.front().field;
}

TEST(NormaliseKeyTest, LowersUuidsOnly) {
  EXPECT_EQ(NormaliseKey("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"), kVersion7);
  EXPECT_EQ(NormaliseKey("Order-17"), "Order-17");
  EXPECT_EQ(NormaliseKey("017F22E279B07CC398C4DC0C0C07398F"), "017F22E279B07CC398C4DC0C0C07398F");
}

TEST(ValidateRecordKeyTest, AcceptsTheLimits) {
  RecordKey key;
  key.name_space = std::string(limits::kMaxNamespaceBytes, 'a');
  key.scope = std::string(limits::kMaxScopeBytes, 's');
  key.operation = std::string(limits::kMaxOperationBytes, 'o');
  key.key = std::string(limits::kMaxKeyBytes, '~');
  EXPECT_TRUE(ValidateRecordKey(key).ok());
  EXPECT_TRUE(ValidateRecordKey({"a.b_c-9", "Zürich GmbH", "Ö", "!"}).ok());
}

TEST(ValidateRecordKeyTest, NamesThePartThatIsWrong) {
  for (const std::string& bad : {std::string(), std::string("Payments"), std::string("a b"),
                                 std::string(limits::kMaxNamespaceBytes + 1, 'a')}) {
    RecordKey key = KeyOf("k");
    key.name_space = bad;
    const absl::Status status = ValidateRecordKey(key);
    EXPECT_EQ(ValidateRecordKey(ToProto(key)), status) << "on the wire, too";
    EXPECT_EQ(ReasonOf(status), Reason::kRequestInvalid);
    EXPECT_EQ(FieldOf(status), "record_key.namespace");
  }
  for (const std::string& bad : {std::string(), std::string("a\tb"), std::string("\xFF"),
                                 std::string(limits::kMaxScopeBytes + 1, 's')}) {
    RecordKey key = KeyOf("k");
    key.scope = bad;
    EXPECT_EQ(FieldOf(ValidateRecordKey(key)), "record_key.scope");
  }
  for (const std::string& bad :
       {std::string(), std::string("\x7F"), std::string(limits::kMaxOperationBytes + 1, 'o')}) {
    RecordKey key = KeyOf("k");
    key.operation = bad;
    EXPECT_EQ(FieldOf(ValidateRecordKey(key, "parent")), "parent.operation");
  }
}

TEST(ValidateRecordKeyTest, NeverQuotesTheKey) {
  EXPECT_EQ(ReasonOf(ValidateRecordKey(KeyOf(""))), Reason::kKeyMissing);
  for (const std::string& bad :
       {std::string("secret key"), std::string("secret\x7F"), std::string("secret\x80"),
        "secret" + std::string(limits::kMaxKeyBytes, 'k')}) {
    const absl::Status status = ValidateRecordKey(KeyOf(bad));
    EXPECT_EQ(ReasonOf(status), Reason::kKeyInvalid);
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
  }
}

// Computed without this code, with sha256 over the four length-prefixed parts. They are a contract:
// the service finds stored records by them.
TEST(RecordIdTest, KnownValues) {
  EXPECT_EQ(RecordIdFor(KeyOf(kVersion7)).ToString(), "017f22e2-79b0-8a68-d869-6bbf7e30295e");
  EXPECT_EQ(RecordIdFor(KeyOf("order-17")).ToString(), "81aad2a5-940d-735c-9991-0d9d015dfad7");
}

TEST(RecordIdTest, TheTopBitIsTheKind) {
  for (int i = 0; i < 100; ++i) {
    const std::string random = Uuid::Random().ToString();
    EXPECT_GE(RecordIdFor(KeyOf(random)).bytes()[0], 0x80);
    EXPECT_GE(RecordIdFor(KeyOf("k" + random)).bytes()[0], 0x80);
    const std::string ordered = Uuid::TimeOrdered(absl::InfiniteFuture()).ToString();
    EXPECT_EQ(RecordIdFor(KeyOf(ordered)).bytes()[0], 0x7F);
  }
}

TEST(RecordIdTest, OrderedByTheTimeOfTheKey) {
  const absl::Time now = absl::FromUnixSeconds(1'700'000'000);
  for (int i = 0; i < 100; ++i) {
    const RecordKey earlier = KeyOf(Uuid::TimeOrdered(now).ToString());
    const RecordKey later = KeyOf(Uuid::TimeOrdered(now + absl::Milliseconds(1)).ToString());
    EXPECT_LT(RecordIdFor(earlier), RecordIdFor(later));
  }
}

TEST(RecordIdTest, EveryPartCountsAndPartsDoNotRunTogether) {
  const RecordKey keys[] = {
      {"a", "b", "c", "d"},  {"a2", "b", "c", "d"}, {"a", "b2", "c", "d"}, {"a", "b", "c2", "d"},
      {"a", "b", "c", "d2"}, {"ab", "", "c", "d"},  {"", "ab", "c", "d"},  {"a", "bc", "", "d"},
  };
  for (const RecordKey& a : keys) {
    for (const RecordKey& b : keys) {
      EXPECT_EQ(RecordIdFor(a) == RecordIdFor(b), a == b);
      EXPECT_EQ(a != b, !(a == b));
    }
  }
}

TEST(KeyTimeTest, OnlyAVersion7KeyHasATime) {
  EXPECT_EQ(KeyTime(KeyOf(kVersion7)), absl::FromUnixMillis(0x017F22E279B0));
  EXPECT_FALSE(KeyTime(KeyOf(Uuid::Random().ToString())).has_value());
  EXPECT_FALSE(KeyTime(KeyOf("order-17")).has_value());
}

TEST(RecordKeyTest, ProtoRoundTripNormalises) {
  v1::RecordKey proto = ToProto(KeyOf("017F22E2-79B0-7CC3-98C4-DC0C0C07398F"));
  EXPECT_EQ(FromProto(proto), KeyOf(kVersion7));
  EXPECT_EQ(proto.namespace_(), "payments");
  EXPECT_EQ(proto.scope(), "tenant-42");
  EXPECT_EQ(proto.operation(), "/payments.v1.Payments/Charge");
}

}  // namespace
}  // namespace idempotency::internal

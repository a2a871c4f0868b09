#include "server/service/store_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Good {
  std::string text;
  StoreAddress::Kind kind;
  std::string location;
  std::string display;
};

TEST(StoreAddressTest, ReadsEveryKind) {
  constexpr auto kSqlite = StoreAddress::Kind::kSqlite;
  constexpr auto kPostgres = StoreAddress::Kind::kPostgres;
  constexpr auto kRedis = StoreAddress::Kind::kRedis;
  const Good cases[] = {
      {"sqlite:/var/lib/records.db", kSqlite, "/var/lib/records.db", "sqlite:/var/lib/records.db"},
      {"sqlite:records.db", kSqlite, "records.db", "sqlite:records.db"},
      {"sqlite:with space?.db", kSqlite, "with space?.db", "sqlite:with space?.db"},
      {"postgresql://db", kPostgres, "postgresql://db", "postgresql://db/"},
      {"postgresql://me:secret@db:5433/records?sslmode=require", kPostgres,
       "postgresql://me:secret@db:5433/records?sslmode=require", "postgresql://db:5433/records"},
      {"postgres://me@db/records", kPostgres, "postgres://me@db/records",
       "postgresql://db/records"},
      {"postgresql://a:1,b:2/records?password=secret", kPostgres,
       "postgresql://a:1,b:2/records?password=secret", "postgresql://a,b:1,2/records"},
      {"postgresql:///records?host=/run/postgresql", kPostgres,
       "postgresql:///records?host=/run/postgresql", "postgresql:///run/postgresql/records"},
      {"redis://db", kRedis, "redis://db", "redis://db:6379"},
      {"rediss+cluster://app@a:1,b:2?password_file=/secret", kRedis,
       "rediss+cluster://app@a:1,b:2?password_file=/secret", "rediss+cluster://a:1,b:2"},
  };
  for (const Good& good : cases) {
    SCOPED_TRACE(good.text);
    const absl::StatusOr<StoreAddress> address = StoreAddress::Parse(good.text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->kind, good.kind);
    EXPECT_EQ(address->location, good.location);
    EXPECT_EQ(address->Display(), good.display);
    EXPECT_THAT(address->Display(), Not(HasSubstr("secret")));
  }
}

TEST(StoreAddressTest, ReportsTheFault) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "sqlite:PATH or postgresql://"},
      {"/var/lib/records.db", "sqlite:PATH or postgresql://"},
      {"mysql://db", "sqlite:PATH or postgresql://"},
      {"host=db dbname=records", "sqlite:PATH or postgresql://"},
      {"sqlite:", "has no path"},
      {"sqlite::memory:", "outlives the process"},
      {"sqlite:file:records.db?mode=memory", "outlives the process"},
      {"memory:", "a store in memory is not supported"},
      {"postgresql://db:port/records", "cannot be parsed"},
      {"postgresql://db:65536/records", "cannot be parsed"},
      {"postgresql://[::1/records", "cannot be parsed"},
      {"postgresql://me:s%zz@db/records", "cannot be parsed"},
      {"postgresql://db/records?nonsense=1", "cannot be parsed"},
      {"redis://me:secret@db", "must not have a password"},
      {"redis://db?nonsense=1", "unknown parameter"},
  };
  for (const auto& [text, message] : cases) {
    SCOPED_TRACE(text);
    const absl::Status status = StoreAddress::Parse(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
}

TEST(StoreAddressTest, NeverQuotesAPassword) {
  const absl::Status status = StoreAddress::Parse("postgresql://me:secret@[db/records").status();
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace idempotency::internal

// The embedded service on a Redis: no option but accept_empty accepts one without its records.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "grpc_idempotency/embedded/embedded_service.h"
#include "tests/support/redis_process.h"

namespace idempotency {
namespace {

using internal::testing::RedisProcess;
using ::testing::HasSubstr;

EmbeddedOptions Migrating() {
  EmbeddedOptions options;
  options.migrate = true;
  return options;
}

EmbeddedOptions AcceptingEmpty() {
  EmbeddedOptions options;
  options.accept_empty = true;
  return options;
}

class EmbeddedOnRedis : public ::testing::Test {
 protected:
  absl::Status Open(const EmbeddedOptions& options) const {
    return EmbeddedService::Open(absl::StrCat("redis://127.0.0.1:", server_->port()), options)
        .status();
  }
  void ExpectRefused() const {
    for (const EmbeddedOptions& options : {EmbeddedOptions(), Migrating()}) {
      const absl::Status refused = Open(options);
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
      EXPECT_THAT(std::string(refused.message()), HasSubstr("EmbeddedOptions::accept_empty"));
    }
  }

  const std::unique_ptr<RedisProcess> server_ = RedisProcess::Create().value();
};

TEST_F(EmbeddedOnRedis, ANewRedisIsPreparedByOneOpen) {
  ExpectRefused();
  EXPECT_TRUE(Open(AcceptingEmpty()).ok());
  for (const EmbeddedOptions& options : {EmbeddedOptions(), Migrating()}) {
    const absl::Status opened = Open(options);
    EXPECT_TRUE(opened.ok()) << opened;
  }
}

TEST_F(EmbeddedOnRedis, ARedisThatLostItsRecordsIsRefusedAlsoByAProgramThatMigrates) {
  ASSERT_TRUE(Open(AcceptingEmpty()).ok());
  server_->Must({"FLUSHALL"});
  ExpectRefused();
}

}  // namespace
}  // namespace idempotency

#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_STORE_FIXTURE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/postgres/options.h"
#include "server/store/postgres/postgres_store.h"
#include "server/store/testing/operations.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/postgres_schema.h"

namespace idempotency::internal {

// A store on a schema of its own, at the server that all tests share.
class PostgresStoreTest : public ::testing::Test {
 protected:
  static ReserveOp OpFor(const std::string& key) { return AttemptNamed(key); }
  static EncodedReply ReplyWith(const std::string& body) {
    v1::Reply reply;
    reply.set_body(body);
    return EncodeReply(reply);
  }
  static CompleteOp CompletionOf(const ReserveOp& op, const absl::StatusOr<Verdict>& verdict) {
    const auto* const reserved = verdict.ok() ? std::get_if<Reserved>(&*verdict) : nullptr;
    return {op.key, op.id, reserved == nullptr ? Uuid() : reserved->token,
            ReplyWith(std::string(256, 'r'))};
  }

  void Open(const std::string& url) {
    auto schema = testing::PostgresSchema::Create(url);
    ASSERT_TRUE(schema.ok()) << schema.status();
    schema_ = *std::move(schema);
    OpenStore();
  }
  void OpenStore() {
    PostgresOptions options = schema_->options();
    options.statements = statements_;
    options.statement_timeout = statement_timeout_;
    options.lock_timeout = lock_timeout_;
    options.locked_pause = locked_pause_;
    options.unreadable_pause = unreadable_pause_;
    options.reply_grace = absl::Milliseconds(200);
    options.max_backoff = absl::Milliseconds(100);
    auto store = PostgresStore::Create(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }
  void SetUp() override { Open(testing::TestPostgresUrl()); }

  absl::StatusOr<Verdict> Reserve(const ReserveOp& op) { return store_->Reserve({&op, 1}).at(0); }
  absl::StatusOr<Completion> Complete(const CompleteOp& op) {
    return store_->Complete({&op, 1}).at(0);
  }
  // Until a query answers `value`, or 20 seconds have passed.
  bool Await(const std::string& sql, const std::string& value) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (schema_->Value(sql) != value) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

  PostgresStatementMode statements_ = PostgresStatementMode::kBatched;
  absl::Duration statement_timeout_ = absl::Seconds(30);
  absl::Duration lock_timeout_ = absl::Seconds(30);
  absl::Duration locked_pause_ = absl::Milliseconds(1);
  absl::Duration unreadable_pause_ = absl::Minutes(10);
  std::unique_ptr<testing::PostgresSchema> schema_;
  std::unique_ptr<PostgresStore> store_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_STORE_FIXTURE_H_

#ifndef IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_SERVER_FIXTURE_H_
#define IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_SERVER_FIXTURE_H_

#include <memory>
#include <utility>

#include "server/store/postgres/testing/store_fixture.h"
#include "tests/support/postgres_cluster.h"

namespace idempotency::internal {

// For tests that stop or stall a server: each has one of its own.
class PostgresFaultTest : public PostgresStoreTest {
 protected:
  void SetUp() override {
    auto cluster = testing::PostgresCluster::Create();
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    Open(cluster_->url());
  }
  void TearDown() override {
    store_.reset();
    schema_.reset();
  }

  std::unique_ptr<testing::PostgresCluster> cluster_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_POSTGRES_TESTING_SERVER_FIXTURE_H_

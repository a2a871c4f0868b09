#ifndef IDEMPOTENCY_SERVER_STORE_REDIS_TESTING_STORE_FIXTURE_H_
#define IDEMPOTENCY_SERVER_STORE_REDIS_TESTING_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/record_key.h"
#include "grpc_idempotency/reply.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/redis/calls.h"
#include "server/store/redis/connections.h"
#include "server/store/redis/identity.h"
#include "server/store/redis/options.h"
#include "server/store/redis/redis_store.h"
#include "server/store/redis/reply.h"
#include "server/store/redis/topology.h"
#include "server/store/testing/operations.h"
#include "tests/support/redis_process.h"

namespace idempotency::internal {

// Stores on servers, and the operations of their callers.
class RedisStoreTest : public ::testing::Test {
 public:
  static ReserveOp OpFor(const std::string& key) { return AttemptNamed(key); }
  // For the keys `prefix`0, `prefix`1, ...
  static std::vector<ReserveOp> OpsFor(const std::string& prefix, int count) {
    std::vector<ReserveOp> ops;
    for (int i = 0; i < count; ++i) ops.push_back(OpFor(absl::StrCat(prefix, i)));
    return ops;
  }
  static EncodedReply ReplyWith(const std::string& body) {
    v1::Reply reply;
    reply.set_body(body);
    return EncodeReply(reply);
  }

 protected:
  static std::unique_ptr<testing::RedisProcess> StartServer(
      const testing::RedisProcessOptions& options = {}) {
    auto server = testing::RedisProcess::Create(options);
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  static std::unique_ptr<testing::RedisProcess> StartReplicaOf(
      const testing::RedisProcess& master, const std::vector<std::string>& settings = {}) {
    testing::RedisProcessOptions options;
    options.settings = {"--replicaof", absl::StrCat("127.0.0.1 ", master.port())};
    options.settings.insert(options.settings.end(), settings.begin(), settings.end());
    return StartServer(options);
  }
  static std::unique_ptr<RedisStore> OpenStore(const RedisOptions& options) {
    auto store = RedisStore::Open(options);
    EXPECT_TRUE(store.ok()) << store.status();
    return *std::move(store);
  }
  // On the shared server.
  void SetUp() override { options_ = testing::RedisProcess::Shared().options(); }

  static absl::StatusOr<Verdict> Reserve(Store& store, const ReserveOp& op) {
    return store.Reserve({&op, 1}).at(0);
  }
  static Reserved MustReserve(Store& store, const ReserveOp& op) {
    const absl::StatusOr<Verdict> verdict = Reserve(store, op);
    if (verdict.ok() && std::holds_alternative<Reserved>(*verdict)) {
      return std::get<Reserved>(*verdict);
    }
    ADD_FAILURE() << (verdict.ok() ? std::string(VerdictName(*verdict))
                                   : verdict.status().ToString());
    return {};
  }
  static absl::StatusOr<Completion> Complete(Store& store, const ReserveOp& of, const Uuid& token,
                                             const std::string& body = "paid") {
    const CompleteOp op{of.key, of.id, token, ReplyWith(body)};
    return store.Complete({&op, 1}).at(0);
  }
  static absl::StatusOr<Record> Get(Store& store, const ReserveOp& of, bool confirmed = false) {
    const GetOp op{of.id, of.key, confirmed};
    return store.Get({&op, 1}).at(0);
  }
  static bool Replays(Store& store, const ReserveOp& op, const std::string& body = "paid") {
    const absl::StatusOr<Verdict> verdict = Reserve(store, op);
    const auto* const replay = verdict.ok() ? std::get_if<Replay>(&*verdict) : nullptr;
    return replay != nullptr && replay->reply == ReplyWith(body);
  }
  std::string KeyOf(const RecordId& id) const { return RedisCalls(options_).KeyOf(id); }
  // Of a call of another process.
  RedisReply Run(const RedisCall& call) const {
    RedisTopology topology(options_);
    const RedisIdentity identity(options_);
    const auto connections = RedisConnections::Open(options_, topology, identity).value();
    return std::move(connections->Run({&call, 1}).at(0)).value();
  }

  RedisOptions options_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_STORE_REDIS_TESTING_STORE_FIXTURE_H_

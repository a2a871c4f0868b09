// A handler's own calls: their keys, and the record of the parent at the called service.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/downstream/parent_table.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "interceptors/server/testing/guarded_till.h"
#include "testdata/till.grpc.pb.h"
#include "tests/support/context_peers.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testing::IsEmpty;

// FakeConnection's.
constexpr char kRecordId[] = "01890a5d-ac96-774b-bcce-b302099a8057";
constexpr char kCharge[] = "/idempotency.testdata.Till/Charge";

class Cashier final : public Till::Service {
 public:
  grpc::Status Charge(grpc::ServerContext* context, const ChargeRequest*, ChargeReply*) override {
    return handler(*context, *Execution::FromContext(context));
  }
  std::function<grpc::Status(grpc::ServerContext&, Execution&)> handler =
      [](grpc::ServerContext&, Execution&) { return grpc::Status::OK; };
};

class DownstreamTest : public GuardedTill {
 protected:
  DownstreamTest() { options_.name_space = "payments"; }
  void Start() { Serve(cashier_); }

  grpc::Status Charge(const std::multimap<std::string, std::string>& metadata = {}) {
    grpc::ClientContext context;
    context.AddMetadata(std::string(kKeyMetadata), "order-1");
    for (const auto& [name, value] : metadata) context.AddMetadata(name, value);
    ChargeReply reply;
    return stub_->Charge(&context, {}, &reply);
  }
  // The recorded parent of a call whose caller sends this parent.
  v1::RecordKey ParentRecorded(const std::string& parent) {
    EXPECT_TRUE(Charge({{std::string(kParentMetadata), parent}}).ok());
    return store_->last_reserve().parent();
  }

  static v1::RecordKey SomeParent() {
    v1::RecordKey parent;
    parent.set_namespace_("shop");
    parent.set_scope("tenant-42");
    parent.set_operation("/shop.v1.Orders/Place");
    parent.set_key("81890a5d-ac96-774b-bcce-b302099a8057");
    return parent;
  }

  Cashier cashier_;
};

TEST_F(DownstreamTest, EveryAttemptFindsTheSameKey) {
  Start();
  std::vector<std::string> keys;
  std::uint32_t attempt = 0;
  cashier_.handler = [&](grpc::ServerContext&, Execution& execution) {
    attempt = execution.attempt();
    keys.push_back(execution.DownstreamKey("item-3").value());
    return attempt < 3 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "") : grpc::Status::OK;
  };
  EXPECT_FALSE(Charge().ok());
  EXPECT_FALSE(Charge().ok());
  EXPECT_TRUE(Charge().ok());
  EXPECT_EQ(attempt, 3u);
  // A vector of client/downstream/downstream_key_test.cc, for the namespace as the secret.
  EXPECT_THAT(keys, testing::Each("018904a3-f000-7215-bb83-09200bbd7b6e"));
}

TEST_F(DownstreamTest, ASecretMakesOtherKeys) {
  options_.downstream_secret = "0123456789abcdef";
  Start();
  std::string key;
  cashier_.handler = [&](grpc::ServerContext&, Execution& execution) {
    key = execution.DownstreamKey("item-3").value();
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Charge().ok());
  EXPECT_EQ(key, "018904a3-f000-72ac-9f2b-751033fdac3a");
}

TEST_F(DownstreamTest, AnAttachedCallNamesItsExecution) {
  Start();
  std::multimap<std::string, std::string> sent;
  cashier_.handler = [&](grpc::ServerContext&, Execution& execution) {
    grpc::ClientContext context;
    EXPECT_TRUE(execution.Attach(context, "item-3").ok());
    sent = grpc::testing::ClientContextTestPeer(&context).GetSendInitialMetadata();
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Charge().ok());
  v1::RecordKey parent;
  ASSERT_TRUE(parent.ParseFromString(sent.find(std::string(kParentMetadata))->second));
  EXPECT_EQ(parent.namespace_(), "payments");
  EXPECT_EQ(parent.scope(), "everybody");
  EXPECT_EQ(parent.operation(), kCharge);
  EXPECT_EQ(parent.key(), kRecordId);
  EXPECT_EQ(sent.find(std::string(kKeyMetadata))->second, "018904a3-f000-7215-bb83-09200bbd7b6e");
}

TEST_F(DownstreamTest, AnExecutionEndsWithItsReply) {
  Start();
  grpc::ClientContext context;
  cashier_.handler = [&](grpc::ServerContext&, Execution& execution) {
    EXPECT_TRUE(execution.Attach(context).ok());
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Charge().ok());
  server_->Shutdown();
  EXPECT_TRUE(ParentTable::Instance().empty());
}

TEST_F(DownstreamTest, TheParentIsRecorded) {
  Start();
  EXPECT_EQ(ParentRecorded(SomeParent().SerializeAsString()).SerializeAsString(),
            SomeParent().SerializeAsString());
}

TEST_F(DownstreamTest, WhatIsNoParentIsLeftOut) {
  Start();
  const auto expect_left_out = [this](const std::string& parent) {
    EXPECT_THAT(ParentRecorded(parent).SerializeAsString(), IsEmpty()) << parent;
    EXPECT_FALSE(store_->last_reserve().has_parent());
  };
  expect_left_out("");
  expect_left_out("\xff\xff");
  v1::RecordKey parent = SomeParent();
  parent.set_key("a key, not a record id");
  expect_left_out(parent.SerializeAsString());
  parent = SomeParent();
  parent.clear_scope();
  expect_left_out(parent.SerializeAsString());
  parent = SomeParent();
  parent.set_operation(std::string(2000, 'x'));
  expect_left_out(parent.SerializeAsString());
}

TEST_F(DownstreamTest, TwoParentsAreNone) {
  Start();
  EXPECT_TRUE(Charge({{std::string(kParentMetadata), SomeParent().SerializeAsString()},
                      {std::string(kParentMetadata), SomeParent().SerializeAsString()}})
                  .ok());
  EXPECT_FALSE(store_->last_reserve().has_parent());
}

TEST_F(DownstreamTest, AParentThatAHandlerSendsBackIsNotRecorded) {
  Start();
  cashier_.handler = [&](grpc::ServerContext& context, Execution&) {
    context.AddTrailingMetadata(std::string(kParentMetadata), "copied");
    return grpc::Status::OK;
  };
  EXPECT_TRUE(Charge().ok());
  EXPECT_TRUE(store_->record().reply.trailing_metadata().empty());
}

}  // namespace
}  // namespace idempotency::internal

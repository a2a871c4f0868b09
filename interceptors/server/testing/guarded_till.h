#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_GUARDED_TILL_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_GUARDED_TILL_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {

// A fixture: a till of the test's behind a guard, in a server without a port, over a fake store.
class GuardedTill : public ::testing::Test {
 protected:
  GuardedTill() {
    options_.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
    options_.scope = SharedScope("everybody");
  }
  // Before the members of the test that the guard and the till use.
  void TearDown() override {
    guard_->Close();
    server_->Shutdown();
    stub_ = nullptr;
    server_ = nullptr;
    guard_ = nullptr;
  }

  void Serve(testdata::Till::Service& till) {
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    guard_ = ServerGuard::Create(std::move(connection), options_).value();
    grpc::ServerBuilder builder;
    ASSERT_TRUE(guard_->Protect<testdata::Till>(builder, &till).ok());
    ASSERT_TRUE(guard_->Install(builder).ok());
    server_ = builder.BuildAndStart();
    stub_ = testdata::Till::NewStub(server_->InProcessChannel({}));
  }

  GuardOptions options_;
  FakeConnection* store_ = nullptr;
  std::unique_ptr<ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<testdata::Till::Stub> stub_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_TESTING_GUARDED_TILL_H_

// The refusals of Protect and Install.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "interceptors/server/grpc_internals.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::Till;
using testing::HasSubstr;

GuardOptions Choosing() {
  GuardOptions options;
  options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  return options;
}

std::unique_ptr<ServerGuard> MakeGuard(GuardOptions options = Choosing()) {
  options.name_space = "tills";
  auto guard = ServerGuard::Create(std::make_unique<FakeConnection>(), std::move(options));
  EXPECT_TRUE(guard.ok()) << guard.status();
  return *std::move(guard);
}

void ExpectRefused(const absl::Status& status, const std::string& name) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr(name));
}

// A refusal registers nothing: gRPC would not start a server on which another
// service then has the same methods.
template <typename Service>
void ExpectProtectRefuses(const std::string& name) {
  const auto guard = MakeGuard();
  Service refused;
  Till::Service taken;
  grpc::ServerBuilder builder;
  ExpectRefused(guard->Protect<Till>(builder, &refused), name);
  EXPECT_TRUE(guard->Protect<Till>(builder, &taken).ok());
  EXPECT_TRUE(guard->Install(builder).ok());
  EXPECT_NE(builder.BuildAndStart(), nullptr);
}

class StreamedUnaryTill final : public Till::WithStreamedUnaryMethod_Charge<Till::Service> {
  grpc::Status StreamedCharge(
      grpc::ServerContext*,
      grpc::ServerUnaryStreamer<testdata::ChargeRequest, testdata::ChargeReply>*) override {
    return grpc::Status::OK;
  }
};

class SplitTill final : public Till::WithSplitStreamingMethod_Watch<Till::Service> {
  grpc::Status StreamedWatch(
      grpc::ServerContext*,
      grpc::ServerSplitStreamer<testdata::BalanceRequest, testdata::BalanceReply>*) override {
    return grpc::Status::OK;
  }
};

// A generated class, but of a service without a descriptor.
struct Undescribed {
  static const char* service_full_name() { return "nowhere.Undescribed"; }
};

TEST(ProtectTest, LayoutIsAsAssumed) { EXPECT_TRUE(grpc_internals::CheckLayout().ok()); }

TEST(ProtectTest, RefusesCompletionQueueMethodsByName) {
  ExpectProtectRefuses<Till::AsyncService>("idempotency.testdata.Till.Charge");
  ExpectProtectRefuses<Till::WithAsyncMethod_Balance<Till::Service>>("Till.Balance");
}

TEST(ProtectTest, RefusesGenericMethods) {
  ExpectProtectRefuses<Till::WithGenericMethod_Charge<Till::Service>>("generic");
  ExpectProtectRefuses<Till::WithGenericMethod_Charge<Till::CallbackService>>("generic");
}

TEST(ProtectTest, RefusesRawMethodsByName) {
  ExpectProtectRefuses<Till::WithRawMethod_Charge<Till::Service>>("Till.Charge");
  ExpectProtectRefuses<Till::WithRawCallbackMethod_Charge<Till::Service>>("Till.Charge");
  ExpectProtectRefuses<Till::WithRawCallbackMethod_Watch<Till::Service>>("Till.Watch");
  ExpectProtectRefuses<Till::WithRawCallbackMethod_Charge<Till::CallbackService>>("Till.Charge");
}

TEST(ProtectTest, RefusesStreamedMethodsByName) {
  ExpectProtectRefuses<StreamedUnaryTill>("Till.Charge");
  ExpectProtectRefuses<SplitTill>("Till.Watch");
}

#if IDEMPOTENCY_GRPC_HAS_SESSIONS

struct VirtualTill final : Till::CallbackService {
  VirtualTill() { grpc::experimental::SetVirtualService(this); }
};

class SessionTill final : public Till::CallbackService {
 public:
  SessionTill() {
    using Handler = grpc::experimental::internal::CallbackSessionHandler<testdata::ChargeRequest>;
    MarkMethodCallback(0, std::make_unique<Handler>(nullptr, &virtual_till_).release());
  }

 private:
  VirtualTill virtual_till_;
};

TEST(ProtectTest, RefusesSessionsAndTheirVirtualServices) {
  ExpectProtectRefuses<VirtualTill>("virtual");
  ExpectProtectRefuses<SessionTill>("Till.Charge");
}

#endif

TEST(ProtectTest, RefusesAServiceThatNothingDescribes) {
  const auto guard = MakeGuard();
  Till::Service service;
  grpc::ServerBuilder builder;
  ExpectRefused(guard->Protect<Undescribed>(builder, &service), "nowhere.Undescribed");
}

TEST(ProtectTest, RefusesTheSameServiceTwice) {
  const auto guard = MakeGuard();
  Till::Service service;
  grpc::ServerBuilder builder;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
  ExpectRefused(guard->Protect<Till>(builder, &service), "idempotency.testdata.Till");
}

TEST(ProtectTest, TakesTheSameServiceOnceForEachHost) {
  const auto guard = MakeGuard();
  Till::Service service;
  grpc::ServerBuilder builder;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
  EXPECT_TRUE(guard->Protect<Till>(builder, "one.example", &service).ok());
  EXPECT_TRUE(guard->Protect<Till>(builder, "two.example:443", &service).ok());
  ExpectRefused(guard->Protect<Till>(builder, "one.example", &service),
                "idempotency.testdata.Till");
  EXPECT_TRUE(guard->Install(builder).ok());
  EXPECT_NE(builder.BuildAndStart(), nullptr);
}

TEST(ProtectTest, RefusesHostsThatNoOperationCanHave) {
  const auto guard = MakeGuard();
  Till::Service service;
  grpc::ServerBuilder builder;
  for (const std::string& host :
       {std::string(), std::string("a/b"), std::string("line\nbreak"), std::string(512, 'h')}) {
    EXPECT_EQ(guard->Protect<Till>(builder, host, &service).code(),
              absl::StatusCode::kInvalidArgument)
        << host;
  }
}

TEST(ProtectTest, TakesServicesThatMixTheApis) {
  const auto guard = MakeGuard();
  Till::WithCallbackMethod_Charge<Till::Service> service;
  grpc::ServerBuilder builder;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
}

TEST(InstallTest, RefusesPoliciesOfUnknownMethods) {
  GuardOptions options;
  options.methods["/idempotency.testdata.Till/Chrage"].policy = MethodPolicy();
  const auto guard = MakeGuard(std::move(options));
  Till::Service service;
  grpc::ServerBuilder builder;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
  ExpectRefused(guard->Install(builder), "/idempotency.testdata.Till/Chrage");
}

TEST(InstallTest, RefusesHandlersOfUnknownMethods) {
  GuardOptions options;
  options.methods["/idempotency.testdata.Till/Chrage"].key_validator = UuidKeys();
  const auto guard = MakeGuard(std::move(options));
  Till::Service service;
  grpc::ServerBuilder builder;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
  ExpectRefused(guard->Install(builder), "/idempotency.testdata.Till/Chrage");
}

TEST(ProtectTest, RefusesPoliciesThatDoNotFitTheirMethod) {
  const auto refusal = [](const std::function<void(MethodPolicy&)>& change) {
    GuardOptions options;
    change(options.methods["/idempotency.testdata.Till/Charge"].ReplacementPolicy());
    const auto guard = MakeGuard(std::move(options));
    Till::Service service;
    grpc::ServerBuilder builder;
    const absl::Status status = guard->Protect<Till>(builder, &service);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("/idempotency.testdata.Till/Charge"));
    // Nothing was registered, so the name is free.
    EXPECT_TRUE(MakeGuard()->Protect<Till>(builder, &service).ok());
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](MethodPolicy& policy) { policy.key_field = "amount_cents"; }),
              HasSubstr("not a string"));
  for (const std::string name :
       {"", "X-Version", "x version", "idempotency-key", "grpc-timeout", ":path"}) {
    EXPECT_THAT(refusal([&](MethodPolicy& policy) { policy.fingerprint_metadata = {name}; }),
                HasSubstr("\"" + name + "\""));
  }
  EXPECT_THAT(refusal([](MethodPolicy& policy) {
                policy.fingerprint_metadata = {"a", "a"};
              }),
              HasSubstr("twice"));
}

TEST(InstallTest, ComesOnceAndLast) {
  const auto guard = MakeGuard();
  grpc::ServerBuilder builder;
  EXPECT_TRUE(guard->Install(builder).ok());
  ExpectRefused(guard->Install(builder), "already");
  Till::Service service;
  ExpectRefused(guard->Protect<Till>(builder, &service), "Install");
}

TEST(CreateTest, NamesTheOptionThatCannotWork) {
  const auto guard = ServerGuard::Create(std::make_unique<FakeConnection>(), GuardOptions());
  EXPECT_EQ(guard.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(guard.status().message()), HasSubstr("name_space"));
}

}  // namespace
}  // namespace idempotency::internal

// The refusals of Protect and Install.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "interceptors/server/grpc_internals.h"
#include "testdata/policies.grpc.pb.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::Till;
using testing::AllOf;
using testing::ElementsAre;
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

// The service of one class would answer the calls of the other.
TEST(ProtectTest, RefusesAServiceOfAnotherClass) {
  const auto guard = MakeGuard();
  testdata::Declaring::Service other;
  Till::Service service;
  grpc::ServerBuilder builder;
  ExpectRefused(guard->Protect<Till>(builder, &other), "idempotency.testdata.Declaring");
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
}

// Has a method more than its class, or, if it is not one of a class, fewer.
class GrownTill final : public Till::Service {
 public:
  GrownTill() {
    using Handler =
        grpc::internal::RpcMethodHandler<GrownTill, testdata::ChargeRequest, testdata::ChargeReply>;
    AddMethod(std::make_unique<grpc::internal::RpcServiceMethod>(
                  "/idempotency.testdata.Till/Refund", grpc::internal::RpcMethod::NORMAL_RPC,
                  std::make_unique<Handler>(nullptr, this).release())
                  .release());
  }
};

class EmptyService final : public grpc::Service {};

TEST(ProtectTest, RefusesAServiceWithOtherMethodsThanItsClass) {
  ExpectProtectRefuses<GrownTill>("Till/Refund");
  ExpectProtectRefuses<EmptyService>("Till/Charge");
}

// As if its generated code was compiled with -fno-rtti: the virtual table of a handler begins with
// the offset to the top, and a null pointer in place of the type.
class UntypedTill final : public Till::Service {
 public:
  UntypedTill() {
    std::copy_n(TableOf(GetHandler(0)) - 2, table_.size(), table_.begin());
    typed_ = std::exchange(TableOf(GetHandler(0)), &table_[2]);
    table_[1] = nullptr;
  }
  ~UntypedTill() override { TableOf(GetHandler(0)) = typed_; }

 private:
  using Table = const void* const*;
  static Table& TableOf(grpc::internal::MethodHandler* handler) {
    return *static_cast<Table*>(static_cast<void*>(handler));
  }

  // With two destructors and two functions.
  std::array<const void*, 6> table_ = {};
  Table typed_ = nullptr;
};

TEST(ProtectTest, RefusesCodeWithoutRtti) { ExpectProtectRefuses<UntypedTill>("RTTI"); }

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

// Its clients, built from the same proto, send it up to five times.
TEST(InstallTest, WarnsOfMethodsThatOnlyTheCodeDoesNotGuard) {
  GuardOptions options = Choosing();
  for (const std::string name : {"TurnedOff", "Adjusted", "Off", "Plain", "Everything"}) {
    options.methods["/idempotency.testdata.Declaring/" + name].adjust = [](MethodPolicy& policy) {
      policy.key = MethodPolicy::Key::kNone;
      policy.key_field.clear();
    };
  }
  std::vector<std::string> warned;
  options.log = [&warned](LogSeverity severity, std::string_view line) {
    if (severity != LogSeverity::kInfo) warned.emplace_back(line);
  };
  const auto guard = MakeGuard(std::move(options));
  testdata::Declaring::Service service;
  grpc::ServerBuilder builder;
  ASSERT_TRUE(guard->Protect<testdata::Declaring>(builder, &service).ok());
  ASSERT_TRUE(guard->Install(builder).ok());
  EXPECT_THAT(warned, ElementsAre(AllOf(HasSubstr("Declaring/Adjusted: "), HasSubstr("KEY_NONE")),
                                  HasSubstr("Declaring/TurnedOff: ")));
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
    change(options.methods["/idempotency.testdata.Till/Charge"].MutableReplacementPolicy());
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
  Till::Service service;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
  EXPECT_TRUE(guard->Install(builder).ok());
  ExpectRefused(guard->Install(builder), "already");
  ExpectRefused(guard->Protect<Till>(builder, "one.example", &service), "Install");
}

// A service that is registered instead of protected would run every retry.
TEST(InstallTest, RefusesAGuardThatProtectsNothing) {
  const auto guard = MakeGuard();
  grpc::ServerBuilder builder;
  Till::Service service;
  builder.RegisterService(&service);
  ExpectRefused(guard->Install(builder), "replace RegisterService with Protect");
}

class NoInterceptors final : public grpc::experimental::ServerInterceptorFactoryInterface {
  grpc::experimental::Interceptor* CreateServerInterceptor(
      grpc::experimental::ServerRpcInfo* /*info*/) override {
    return nullptr;
  }
};

// It would replace them, an authenticating one among them.
TEST(InstallTest, RefusesABuilderThatHasInterceptors) {
  const auto guard = MakeGuard();
  grpc::ServerBuilder builder;
  ServerGuard::InterceptorFactories set_before;
  set_before.push_back(std::make_unique<NoInterceptors>());
  builder.experimental().SetInterceptorCreators(std::move(set_before));
  Till::Service service;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
  ExpectRefused(guard->Install(builder), "pass your interceptors to Install");
}

TEST(InstallTest, RefusesASecondGuardOfAServer) {
  const auto guard = MakeGuard();
  const auto other = MakeGuard();
  grpc::ServerBuilder builder;
  Till::Service service;
  EXPECT_TRUE(guard->Protect<Till>(builder, &service).ok());
  EXPECT_TRUE(guard->Install(builder).ok());
  EXPECT_TRUE(other->Protect<Till>(builder, "one.example", &service).ok());
  ExpectRefused(other->Install(builder), "one guard per server");
}

TEST(CreateTest, NamesTheOptionThatCannotWork) {
  const auto guard = ServerGuard::Create(std::make_unique<FakeConnection>(), GuardOptions());
  EXPECT_EQ(guard.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(guard.status().message()), HasSubstr("name_space"));
}

// Stacks of a size for which there is no memory, for threads that are started meanwhile.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_getattr_default_np(&attributes);
    EXPECT_EQ(pthread_attr_setstacksize(&attributes, kNoMemory), 0);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  ~NoMoreThreads() {
    pthread_setattr_default_np(&before_);
    pthread_attr_destroy(&before_);
  }

 private:
  static constexpr std::size_t kNoMemory = std::size_t{1} << 50;
  pthread_attr_t before_;
};

TEST(CreateTest, ReportsAThreadThatCannotBeStarted) {
  GuardOptions options = Choosing();
  options.name_space = "tills";
  auto connection = std::make_unique<FakeConnection>();
  const auto channel = grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials());
  const NoMoreThreads limit;
  const auto guard = ServerGuard::Create(std::move(connection), options);
  EXPECT_EQ(guard.status().code(), absl::StatusCode::kResourceExhausted);
  const auto over_a_channel = ServerGuard::Create(channel, options);
  EXPECT_EQ(over_a_channel.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace idempotency::internal

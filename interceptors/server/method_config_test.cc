// Operations of methods and authorisers in a real server, over a fake store.
#include "grpc_idempotency/server_guard/method_config.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "client/testing/fake_connection.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Envelope;
using testdata::NewTill;
using testdata::Till;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using Operation = FakeConnection::Operation;

constexpr char kCharge[] = "/idempotency.testdata.Till/Charge";
constexpr char kBalance[] = "/idempotency.testdata.Till/Balance";
constexpr char kWatch[] = "/idempotency.testdata.Till/Watch";
constexpr char kNewCharge[] = "/idempotency.testdata.NewTill/Charge";

template <typename Service>
class CountingTill final : public Service::Service {
 public:
  explicit CountingTill(int& runs) : runs_(runs) {}
  grpc::Status Charge(grpc::ServerContext*, const ChargeRequest*, ChargeReply* reply) override {
    reply->set_charge_id("charge-" + std::to_string(++runs_));
    return grpc::Status::OK;
  }

 private:
  int& runs_;
};

// A till and its new version behind one guard.
class MethodConfigTest : public testing::Test {
 protected:
  MethodConfigTest() {
    options_.name_space = "tills";
    options_.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
    options_.scope = SharedScope("everybody");
  }
  void TearDown() override {
    guard_->Close();
    if (server_ != nullptr) server_->Shutdown();
    server_ = nullptr;
    guard_ = nullptr;
  }

  void Serve(const std::string& host_of_new = "") {
    auto connection = std::make_unique<FakeConnection>();
    store_ = connection.get();
    guard_ = ServerGuard::Create(std::move(connection), options_).value();
    grpc::ServerBuilder builder;
    ASSERT_TRUE(guard_->Protect<Till>(builder, &till_).ok());
    const absl::Status protected_new =
        host_of_new.empty() ? guard_->Protect<NewTill>(builder, &new_till_)
                            : guard_->Protect<NewTill>(builder, host_of_new, &new_till_);
    ASSERT_TRUE(protected_new.ok()) << protected_new;
    ASSERT_TRUE(guard_->Install(builder).ok());
    server_ = builder.BuildAndStart();
  }

  template <typename Service>
  grpc::Status Charge(int amount_cents = 100, const std::string& host = "") {
    grpc::ClientContext context;
    if (!host.empty()) context.set_authority(host);
    if (has_key_) context.AddMetadata(std::string(kKeyMetadata), "order-1");
    ChargeRequest request;
    request.set_amount_cents(amount_cents);
    const auto stub = Service::NewStub(server_->InProcessChannel({}));
    reply_.Clear();
    const grpc::Status status = stub->Charge(&context, request, &reply_);
    trailers_ = context.GetServerTrailingMetadata().size();
    return status;
  }

  MethodConfig& charge() { return options_.methods[kCharge]; }

  int runs_ = 0;
  CountingTill<Till> till_{runs_};
  CountingTill<NewTill> new_till_{runs_};
  GuardOptions options_;
  FakeConnection* store_ = nullptr;
  std::unique_ptr<ServerGuard> guard_;
  std::unique_ptr<grpc::Server> server_;
  bool has_key_ = true;
  ChargeReply reply_;
  std::size_t trailers_ = 0;
};

TEST_F(MethodConfigTest, ARenamedMethodWithTheOldOperationReplays) {
  options_.methods[kNewCharge].operation = kCharge;
  Serve();
  EXPECT_TRUE(Charge<Till>().ok());
  EXPECT_TRUE(Charge<NewTill>().ok());
  EXPECT_EQ(reply_.charge_id(), "charge-1");
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(Charge<NewTill>(/*amount_cents=*/200))), Reason::kKeyReused);
  EXPECT_EQ(runs_, 1);
}

TEST_F(MethodConfigTest, ARenamedMethodWithoutItRunsAgain) {
  Serve();
  EXPECT_TRUE(Charge<Till>().ok());
  EXPECT_TRUE(Charge<NewTill>().ok());
  EXPECT_EQ(runs_, 2);
}

TEST_F(MethodConfigTest, AHostPrecedesTheOperationToo) {
  options_.methods[kNewCharge].operation = kCharge;
  Serve("new.example");
  EXPECT_TRUE(Charge<Till>().ok());
  EXPECT_TRUE(Charge<NewTill>(/*amount_cents=*/100, "new.example").ok());
  EXPECT_EQ(runs_, 2);
  EXPECT_EQ(store_->last_reserve().record_key().operation(), std::string("new.example") + kCharge);
}

TEST_F(MethodConfigTest, AReplyOfAStreamIsNoReplyOfAUnaryMethod) {
  Serve();
  v1::ReserveResponse verdict;
  verdict.mutable_replay()->mutable_reply()->add_stream("");
  store_->SetVerdict(verdict);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(Charge<Till>())), Reason::kReplyNotKept);
}

// Install and Till's methods of one operation.
class SharedOperationTest : public MethodConfigTest {
 protected:
  SharedOperationTest() { options_.methods[kNewCharge].operation = kCharge; }

  absl::Status Install() {
    guard_ = ServerGuard::Create(std::make_unique<FakeConnection>(), options_).value();
    EXPECT_TRUE(guard_->Protect<Till>(builder_, &till_).ok());
    EXPECT_TRUE(guard_->Protect<NewTill>(builder_, &new_till_).ok());
    return guard_->Install(builder_);
  }
  std::string Refusal() {
    const absl::Status refused = Install();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
    return std::string(refused.message());
  }

  grpc::ServerBuilder builder_;
};

TEST_F(SharedOperationTest, MethodsThatAgreeAreInstalled) { EXPECT_TRUE(Install().ok()); }

TEST_F(SharedOperationTest, TheyChooseTheSameForAnUnknownOutcome) {
  options_.methods[kNewCharge].adjust = [](MethodPolicy& policy) {
    policy.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  };
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(kCharge), HasSubstr(kNewCharge),
                               HasSubstr("differ in the choice for an unknown outcome")));
}

TEST_F(SharedOperationTest, TheyHaveARecoveryHandlerOrNone) {
  options_.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kRequireRecovery;
  charge().recovery = [](const RecoveryCase&) { return RecoveryDecision::LeaveUnknown(); };
  EXPECT_THAT(Refusal(), HasSubstr("only one of them has a recovery handler"));
}

TEST_F(SharedOperationTest, TheyAreOfOneKind) {
  for (const char* const method : {kBalance, kWatch}) {
    options_.methods[method].operation = "/balances";
    options_.methods[method].adjust = [method](MethodPolicy& policy) {
      policy.key = MethodPolicy::Key::kRequired;
      if (method == kWatch) policy.stream = MethodPolicy::Stream::kHoldBack;
    };
  }
  EXPECT_THAT(Refusal(), AllOf(HasSubstr(kBalance), HasSubstr(kWatch),
                               HasSubstr("one is unary, and the other one is streaming")));
}

TEST(MethodConfigRulesTest, AnOperationIsLikeAMethodsName) {
  GuardOptions options;
  options.name_space = "tills";
  std::string& operation = options.methods[kCharge].operation;
  for (const std::string& valid : {std::string("/charges"), "/" + std::string(511, 'x')}) {
    operation = valid;
    EXPECT_TRUE(ValidateGuardOptions(options).ok()) << valid;
  }
  for (const std::string& bad : {std::string("POST /charges"), "/" + std::string(512, 'x'),
                                 std::string("/a\nb"), std::string("/\xff")}) {
    operation = bad;
    const absl::Status status = ValidateGuardOptions(options);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad;
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("GuardOptions.methods[/idempotency.testdata.Till/Charge].operation must"));
  }
}

TEST_F(MethodConfigTest, AReplayIsForTheAuthorisedOnly) {
  bool is_allowed = true;
  charge().authoriser = AuthoriserFor<ChargeRequest>(
      [&](const grpc::ServerContextBase& context, const ChargeRequest& request) {
        EXPECT_EQ(context.client_metadata().count("idempotency-key"), 1u);
        EXPECT_EQ(request.amount_cents(), 100);
        return is_allowed ? absl::OkStatus() : absl::PermissionDeniedError("no longer yours");
      });
  Serve();
  EXPECT_TRUE(Charge<Till>().ok());
  const std::string recorded = store_->record().reply.SerializeAsString();
  const int reserve_calls = store_->calls(Operation::kReserve);

  is_allowed = false;
  const grpc::Status refused = Charge<Till>();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(refused.error_message(), "no longer yours");
  EXPECT_THAT(refused.error_details(), IsEmpty());
  EXPECT_EQ(trailers_, 0u) << "of a record";
  EXPECT_EQ(store_->calls(Operation::kReserve), reserve_calls);
  EXPECT_EQ(store_->record().state, v1::RECORD_STATE_COMPLETED);
  EXPECT_EQ(store_->record().attempt, 1u);
  EXPECT_EQ(store_->record().reply.SerializeAsString(), recorded);

  is_allowed = true;
  EXPECT_TRUE(Charge<Till>().ok());
  EXPECT_EQ(reply_.charge_id(), "charge-1");
  EXPECT_EQ(runs_, 1);
}

TEST_F(MethodConfigTest, TheFirstCallIsAuthorisedToo) {
  charge().authoriser = [](const grpc::ServerContextBase&, const google::protobuf::Message&) {
    return absl::PermissionDeniedError("not yours");
  };
  // Not even where a method runs without a verdict.
  charge().adjust = [](MethodPolicy& policy) {
    policy.fail_open = true;
    policy.key = MethodPolicy::Key::kOptional;
  };
  Serve();
  EXPECT_EQ(Charge<Till>().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(store_->calls(Operation::kReserve), 0);
  EXPECT_EQ(runs_, 0);
  has_key_ = false;
  EXPECT_EQ(Charge<Till>().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(runs_, 0);
}

TEST_F(MethodConfigTest, AnAuthorisedCallWithoutAKeyRuns) {
  charge().authoriser = [](const grpc::ServerContextBase&, const google::protobuf::Message&) {
    return absl::OkStatus();
  };
  charge().adjust = [](MethodPolicy& policy) { policy.key = MethodPolicy::Key::kOptional; };
  Serve();
  has_key_ = false;
  EXPECT_TRUE(Charge<Till>().ok());
  EXPECT_EQ(runs_, 1);
}

TEST_F(MethodConfigTest, AMethodWithoutKeysHasNeitherAuthoriserNorOperation) {
  charge().adjust = [](MethodPolicy& policy) { policy.key = MethodPolicy::Key::kNone; };
  charge().operation = "/charges";
  charge().authoriser = [](const grpc::ServerContextBase&, const google::protobuf::Message&) {
    return absl::OkStatus();
  };
  guard_ = ServerGuard::Create(std::make_unique<FakeConnection>(), options_).value();
  grpc::ServerBuilder builder;
  const absl::Status refused = guard_->Protect<Till>(builder, &till_);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("Till/Charge: "), HasSubstr("an authoriser"),
                    HasSubstr("an operation, but key NONE")));
}

TEST_F(MethodConfigTest, AnAuthoriserThatFailsRefusesTheCall) {
  charge().authoriser = [](const grpc::ServerContextBase&,
                           const google::protobuf::Message&) -> absl::Status {
    throw std::runtime_error("secret");
  };
  options_.methods[kNewCharge].authoriser = AuthoriserFor<Envelope>(
      [](const grpc::ServerContextBase&, const Envelope&) { return absl::OkStatus(); });
  Serve();
  const grpc::Status thrown = Charge<Till>();
  EXPECT_EQ(thrown.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(thrown.error_message(), "the authoriser failed; nothing was run");
  const grpc::Status mistyped = Charge<NewTill>();
  EXPECT_EQ(mistyped.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_THAT(mistyped.error_message(), HasSubstr("is made for idempotency.testdata.Envelope"));
  EXPECT_EQ(store_->calls(Operation::kReserve), 0);
  EXPECT_EQ(runs_, 0);
}

}  // namespace
}  // namespace idempotency::internal

// The stored part of a reply, by policy, and the answer to a retry.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kAct[] = "/idempotency.testing.Probe/Act";

class GuardReplies : public GuardFixture {
 protected:
  // A server whose Act stores its replies by `reply`.
  ProbeServer& ServeKeeping(MethodPolicy::Reply reply, ProbeHandler handler,
                            ReplyLoader loader = nullptr) {
    return Serve(std::move(handler), [&](ProbeServer::Options& options) {
      MethodPolicy policy;
      policy.reply = reply;
      options.guard.methods[kAct].policy = policy;
      options.guard.methods[kAct].loader = loader;
    });
  }

  // Returns OK, names its effect, and adds a trailer.
  ProbeHandler Referring() {
    return [this](grpc::ServerContextBase& context, const ActRequest&, ActReply& reply) {
      reply.set_total(++runs_);
      reply.set_effect("as it was");
      context.AddTrailingMetadata("x-own", "first");
      Execution::FromContext(&context)->SetReference("effect", "eff_1");
      return grpc::Status::OK;
    };
  }
};

TEST_P(GuardReplies, StatusOnlyRefusesAReplayOfOk) {
  ServeKeeping(MethodPolicy::Reply::kStatusOnly, Counting());
  const ProbeClient client(server_->address());
  const Outcome first = client.Act("a");
  ASSERT_TRUE(first.status.ok());
  EXPECT_EQ(first.reply().total(), 1);
  const Outcome retry = client.Act("a");
  EXPECT_EQ(retry.reason(), Reason::kReplyNotKept);
  EXPECT_EQ(DetailsOf(FromGrpcStatus(retry.status)).metadata.at("original_code"), "0");
  EXPECT_EQ(runs_, 1);
  const v1::Record record = Get(first.Trailer("idempotency-record"));
  EXPECT_EQ(record.reply().content(), v1::REPLY_CONTENT_STATUS_ONLY);
  EXPECT_FALSE(record.reply().has_body());
}

TEST_P(GuardReplies, StatusOnlyReplaysAnErrorWithAMark) {
  ServeKeeping(MethodPolicy::Reply::kStatusOnly,
               [&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
                 ++runs_;
                 context.AddTrailingMetadata("x-own", "first");
                 return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such account", "details");
               });
  const ProbeClient client(server_->address());
  const Outcome first = client.Act("a");
  EXPECT_EQ(first.status.error_details(), "details");
  EXPECT_EQ(first.Trailer("x-own"), "first");
  EXPECT_EQ(first.Trailer("idempotency-content"), "");
  const Outcome retry = client.Act("a");
  EXPECT_EQ(retry.status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(retry.status.error_message(), "no such account");
  EXPECT_EQ(retry.status.error_details(), "");
  EXPECT_EQ(retry.Trailer("x-own"), "");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.Trailer("idempotency-content"), "status-only");
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardReplies, RedactedFieldReachesTheFirstCallerAndNoStore) {
  Serve([&](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
    reply.set_total(++runs_);
    reply.set_secret("4111-1111");
    return grpc::Status::OK;
  });
  const ProbeClient client(server_->address());
  const Outcome first = client.Act("a");
  ASSERT_TRUE(first.status.ok());
  EXPECT_EQ(first.reply().secret(), "4111-1111");
  const Outcome retry = client.Act("a");
  ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
  EXPECT_EQ(retry.reply().total(), 1);
  EXPECT_EQ(retry.reply().secret(), "");
  EXPECT_EQ(retry.Trailer("idempotency-content"), "redacted");
  const v1::Record record = Get(first.Trailer("idempotency-record"));
  EXPECT_EQ(record.reply().content(), v1::REPLY_CONTENT_REDACTED);
  EXPECT_EQ(record.SerializeAsString().find("4111"), std::string::npos);
}

TEST_P(GuardReplies, ReferenceIsReadAgainAndNothingElseIsStored) {
  std::atomic<int> loads{0};
  ServeKeeping(MethodPolicy::Reply::kReference, Referring(),
               LoadReply<ActReply>([&](const v1::Reference& reference, ActReply& reply) {
                 ++loads;
                 reply.set_effect(reference.type() + "/" + reference.id() + " as it is now");
                 return absl::OkStatus();
               }));
  const ProbeClient client(server_->address());
  const Outcome first = client.Act("a");
  ASSERT_TRUE(first.status.ok());
  EXPECT_EQ(first.reply().effect(), "as it was");
  EXPECT_EQ(loads, 0);
  for (int i = 1; i <= 2; ++i) {
    const Outcome retry = client.Act("a");
    ASSERT_TRUE(retry.status.ok()) << retry.status.error_message();
    EXPECT_EQ(retry.reply().effect(), "effect/eff_1 as it is now");
    EXPECT_EQ(retry.reply().total(), 0);
    EXPECT_TRUE(retry.replayed());
    EXPECT_EQ(retry.Trailer("idempotency-content"), "reference");
    EXPECT_EQ(retry.Trailer("x-own"), "");
    EXPECT_EQ(loads, i);
  }
  EXPECT_EQ(runs_, 1);
  const v1::Record record = Get(first.Trailer("idempotency-record"));
  EXPECT_EQ(record.reply().content(), v1::REPLY_CONTENT_REFERENCE);
  EXPECT_EQ(record.SerializeAsString().find("as it was"), std::string::npos);
}

TEST_P(GuardReplies, LoaderFailureIsDistinguished) {
  absl::Status answer;
  ServeKeeping(MethodPolicy::Reply::kReference, Referring(),
               [&](const v1::Reference&, google::protobuf::Message&) {
                 if (answer.code() == absl::StatusCode::kUnknown) throw std::runtime_error("threw");
                 return answer;
               });
  const ProbeClient client(server_->address());
  ASSERT_TRUE(client.Act("a").status.ok());
  answer = absl::NotFoundError("deleted");
  EXPECT_EQ(client.Act("a").reason(), Reason::kReplyNotKept);
  for (const absl::Status& failure :
       {absl::UnavailableError("the database is away: password"), absl::UnknownError("")}) {
    answer = failure;
    const Outcome retry = client.Act("a");
    EXPECT_EQ(retry.reason(), Reason::kStoreUnavailable);
    EXPECT_EQ(retry.status.error_message().find("password"), std::string::npos);
    EXPECT_NE(retry.Trailer("grpc-retry-pushback-ms"), "");
  }
  answer = absl::OkStatus();
  EXPECT_TRUE(client.Act("a").status.ok());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardReplies, OkWithoutAReferenceKeepsItsStatus) {
  ServeKeeping(
      MethodPolicy::Reply::kReference,
      [&](grpc::ServerContextBase& context, const ActRequest& request, ActReply& reply) {
        reply.set_total(++runs_);
        // Not UTF-8: no reference either.
        if (request.amount() == 2) Execution::FromContext(&context)->SetReference("effect", "\xff");
        return grpc::Status::OK;
      },
      [](const v1::Reference&, google::protobuf::Message&) { return absl::OkStatus(); });
  const ProbeClient client(server_->address());
  for (const int amount : {1, 2}) {
    const std::string key = std::to_string(amount);
    ASSERT_TRUE(client.Act(key, amount).status.ok());
    EXPECT_EQ(client.Act(key, amount).reason(), Reason::kReplyNotKept);
  }
  EXPECT_EQ(runs_, 2);
}

TEST_P(GuardReplies, ErrorUnderReferenceIsReplayedWhole) {
  ServeKeeping(
      MethodPolicy::Reply::kReference,
      [&](grpc::ServerContextBase&, const ActRequest&, ActReply&) {
        ++runs_;
        return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such account", "details");
      },
      [](const v1::Reference&, google::protobuf::Message&) { return absl::OkStatus(); });
  const ProbeClient client(server_->address());
  const Outcome first = client.Act("a");
  const Outcome retry = client.Act("a");
  EXPECT_EQ(retry.status.error_details(), "details");
  EXPECT_EQ(retry.Trailer("idempotency-content"), "");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardReplies, ReferenceWithoutALoaderIsRefusedAtStartUp) {
  GuardOptions options;
  options.name_space = "probe";
  options.scope = SharedScope("everybody");
  options.on_unknown_outcome = MethodPolicy::OnUnknownOutcome::kTakeOver;
  options.methods[kAct].MutableReplacementPolicy().reply = MethodPolicy::Reply::kReference;
  const auto guard = ServerGuard::Create(
      grpc::CreateChannel(daemon_->address(), grpc::InsecureChannelCredentials()), options);
  ASSERT_TRUE(guard.ok()) << guard.status();
  const auto service = ProbeService::Make(GetParam(), Counting());
  grpc::ServerBuilder builder;
  const absl::Status refused = (*guard)->Protect<Probe>(builder, service->service());
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(refused.message()).find(kAct), std::string::npos) << refused;
}

INSTANTIATE_TEST_SUITE_P(Apis, GuardReplies, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

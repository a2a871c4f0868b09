// How requests are recognised, over the real stack: algorithms that are rolled out, normalisers,
// keys in the request.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/canonical_form.h"
#include "core/sha256.h"
#include "grpc_idempotency/server_guard/execution.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"
#include "tests/support/gate.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kAct[] = "/idempotency.testing.Probe/Act";

// Not version 1, and valid as a fingerprint.
FingerprintAlgorithm SecondVersion() {
  return {2, [](const FingerprintInput& input) {
            std::string bytes = absl::StrCat("second", std::string(input.method));
            EXPECT_TRUE(AppendCanonicalForm(input.request, input.key_field, bytes));
            const Sha256Digest digest = Sha256(bytes);
            return std::string(digest.begin(), digest.end());
          }};
}

// A guard's step in the roll-out of the second version.
enum class Step { kBefore, kDuring, kAfter };

std::string Name(Step step) {
  return step == Step::kBefore ? "before" : step == Step::kDuring ? "during" : "after";
}

// Every order in which `calls` calls meet guards of two neighbouring steps.
std::vector<std::vector<Step>> Orders(Step earlier, Step later, int calls) {
  std::vector<std::vector<Step>> orders;
  for (int bits = 0; bits < (1 << calls); ++bits) {
    orders.emplace_back();
    for (int i = 0; i < calls; ++i) {
      orders.back().push_back((bits >> i) % 2 == 0 ? earlier : later);
    }
  }
  return orders;
}

class VersionRollOut : public GuardFixture {
 protected:
  VersionRollOut() {
    Add(Step::kBefore, {FingerprintAlgorithm::V1()});
    Add(Step::kDuring, {FingerprintAlgorithm::V1(), SecondVersion()});
    Add(Step::kAfter, {SecondVersion()});
  }

  void Add(Step step, std::vector<FingerprintAlgorithm> algorithms) {
    servers_[step] =
        MakeServer([this](grpc::ServerContextBase& context, const ActRequest& request,
                          ActReply& reply) { return handler_(context, request, reply); },
                   [&](ProbeServer::Options& options) {
                     options.guard.fingerprint_algorithms = std::move(algorithms);
                   });
    clients_.emplace(step, ProbeClient(servers_[step]->address()));
  }

  Outcome Act(Step step, const std::string& key, std::int64_t amount = 1) {
    return clients_.at(step).Act(key, amount);
  }

  ProbeHandler handler_ = Counting();
  std::map<Step, std::unique_ptr<ProbeServer>> servers_;
  std::map<Step, ProbeClient> clients_;
};

// The same request always replays, another one is always refused, for any guard that ran it and any
// guard that received it since.
TEST_P(VersionRollOut, NeighbouringStepsAgreeInEveryOrder) {
  for (const auto& [earlier, later] :
       {std::pair(Step::kBefore, Step::kDuring), std::pair(Step::kDuring, Step::kAfter)}) {
    for (const std::vector<Step>& order : Orders(earlier, later, 4)) {
      std::string key = "from-" + Name(earlier);
      for (const Step step : order) key += "-" + Name(step);
      const int runs = runs_;
      const Outcome first = Act(order.front(), key);
      ASSERT_TRUE(first.status.ok()) << first.status.error_message();
      for (std::size_t i = 1; i < order.size(); ++i) {
        EXPECT_EQ(Act(order[i], key, 2).reason(), Reason::kKeyReused) << key << i;
        const Outcome again = Act(order[i], key);
        EXPECT_TRUE(again.replayed()) << key << i << ": " << again.status.error_message();
        EXPECT_EQ(again.body, first.body);
      }
      EXPECT_EQ(runs_, runs + 1) << key;
    }
  }
}

// The same while the first attempt still runs, and after it was released.
TEST_P(VersionRollOut, NeighbouringStepsAgreeBeforeThereIsAReply) {
  for (const auto& [first, second] :
       {std::pair(Step::kBefore, Step::kDuring), std::pair(Step::kDuring, Step::kBefore),
        std::pair(Step::kDuring, Step::kAfter), std::pair(Step::kAfter, Step::kDuring)}) {
    Gate gate;
    int attempts = 0;
    handler_ = [&](grpc::ServerContextBase& context, const ActRequest&, ActReply&) {
      gate.Enter();
      Execution::FromContext(&context)->MarkNoEffect();
      return ++attempts == 1 ? grpc::Status(grpc::StatusCode::ABORTED, "given up")
                             : grpc::Status::OK;
    };
    const std::string key = absl::StrCat("running-", Name(first), "-", Name(second));
    std::thread running(
        [&, first = first] { EXPECT_EQ(Act(first, key).status.error_message(), "given up"); });
    EXPECT_TRUE(gate.AwaitInside(1));
    EXPECT_EQ(Act(second, key).reason(), Reason::kInFlight) << key;
    EXPECT_EQ(Act(second, key, 2).reason(), Reason::kKeyReused) << key;
    gate.Open();
    running.join();
    EXPECT_EQ(Act(second, key, 2).reason(), Reason::kKeyReused) << key;
    EXPECT_TRUE(Act(second, key).status.ok()) << key;
    EXPECT_TRUE(Act(first, key).replayed()) << key;
    EXPECT_EQ(Act(first, key, 2).reason(), Reason::kKeyReused) << key;
    EXPECT_EQ(attempts, 2);
  }
}

// The effect of omitting the middle step: calls that no guard can recognise, and that therefore
// neither run nor replay.
TEST_P(VersionRollOut, StepsThatAreNoNeighboursRefuse) {
  for (const auto& [first, second] :
       {std::pair(Step::kBefore, Step::kAfter), std::pair(Step::kAfter, Step::kBefore)}) {
    const std::string key = "apart-" + Name(first);
    EXPECT_TRUE(Act(first, key).status.ok());
    EXPECT_EQ(Act(second, key).reason(), Reason::kFingerprintUnknown);
    EXPECT_EQ(Act(second, key, 2).reason(), Reason::kFingerprintUnknown);
  }
  EXPECT_EQ(runs_, 2);
}

INSTANTIATE_TEST_SUITE_P(Sync, VersionRollOut, ::testing::Values(Api::kSync), ApiName);

// A handler that replies with the amount of its request.
grpc::Status Echo(grpc::ServerContextBase&, const ActRequest& request, ActReply& reply) {
  reply.set_total(request.amount());
  return grpc::Status::OK;
}

using GuardedRequests = GuardFixture;

TEST_P(GuardedRequests, TheNormalisedRequestIsComparedAndTheHandlerSeesItAsItCame) {
  const ProbeClient client(Serve(Echo, [](ProbeServer::Options& options) {
                             options.guard.methods[kAct].normaliser =
                                 NormaliserFor<ActRequest>([](ActRequest& copy) {
                                   if (copy.amount() < 0) {
                                     return absl::InvalidArgumentError("amounts are not negative");
                                   }
                                   copy.set_amount(copy.amount() / 10 * 10);
                                   return absl::OkStatus();
                                 });
                           }).address());
  EXPECT_EQ(client.Act("rounded", 123).reply().total(), 123);
  const Outcome again = client.Act("rounded", 120);
  EXPECT_TRUE(again.replayed());
  EXPECT_EQ(again.reply().total(), 123);
  EXPECT_EQ(client.Act("rounded", 130).reason(), Reason::kKeyReused);
  const Outcome refused = client.Act("negative", -1);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refused.status.error_message(), "amounts are not negative");
  // It reserved nothing.
  EXPECT_FALSE(client.Act("negative", 1).replayed());
}

TEST_P(GuardedRequests, TheKeyMayComeInEitherPlaceOnEachTry) {
  const ProbeClient client(Serve(Counting(), [](ProbeServer::Options& options) {
                             options.guard.methods[kAct].MutableReplacementPolicy().key_field =
                                 "account";
                             options.guard.methods[kAct].key_validator = UuidKeys();
                           }).address());
  const std::string key = "2f5ce8ab-7d3f-4b5a-9d0c-2b1a5d3e4f60";
  const auto send = [&](const std::string& field, const std::vector<std::string>& metadata) {
    Call call;
    call.account = field;
    call.keys = metadata;
    return client.Send(call);
  };
  EXPECT_EQ(send("", {}).reason(), Reason::kKeyMissing);
  EXPECT_EQ(send("order-1", {}).reason(), Reason::kKeyInvalid);
  EXPECT_EQ(send("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", {key}).reason(), Reason::kKeyInvalid);
  const Outcome first = send("", {"\"" + key + "\""});
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_TRUE(send(key, {}).replayed());
  EXPECT_TRUE(send("2F5CE8AB-7D3F-4B5A-9D0C-2B1A5D3E4F60", {key}).replayed());
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardedRequests, NamedMetadataBelongsToTheRequest) {
  const ProbeClient client(
      Serve(Counting(), [](ProbeServer::Options& options) {
        options.guard.methods[kAct].MutableReplacementPolicy().fingerprint_metadata = {"x-version"};
      }).address());
  const auto send = [&](const std::multimap<std::string, std::string>& metadata) {
    Call call = With("versioned");
    call.metadata = metadata;
    return client.Send(call);
  };
  EXPECT_TRUE(send({{"x-version", "1"}, {"x-trace", "a"}}).status.ok());
  EXPECT_TRUE(send({{"x-version", "1"}, {"x-trace", "b"}}).replayed());
  EXPECT_EQ(send({{"x-version", "2"}}).reason(), Reason::kKeyReused);
  EXPECT_EQ(send({{"x-version", ""}}).reason(), Reason::kKeyReused);
  EXPECT_EQ(send({}).reason(), Reason::kKeyReused);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardedRequests, ::testing::Values(Api::kSync, Api::kCallback),
                         ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

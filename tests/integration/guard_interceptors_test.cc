// The guard beside interceptors that change messages, or take their bytes.
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "core/mutex.h"
#include "tests/integration/guard_fixture.h"
#include "tests/support/api_name.h"

namespace idempotency::internal::testing {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::Interceptor;
using Batch = grpc::experimental::InterceptorBatchMethods;

constexpr std::chrono::seconds kLong{20};

// Makes an interceptor for each call, from the given arguments.
template <typename Made, typename Argument>
class FactoryOf final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit FactoryOf(Argument* argument) : argument_(argument) {}
  Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* /*info*/) override {
    return std::make_unique<Made>(argument_).release();  // gRPC deletes it
  }

 private:
  Argument* const argument_;
};

// Sends another message than the handler's: its effect, with a mark added.
class Marking final : public Interceptor {
 public:
  explicit Marking(const std::string* mark) : mark_(*mark) {}
  void Intercept(Batch* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE) &&
        batch->GetSendMessage() != nullptr) {
      marked_ = *static_cast<const ActReply*>(batch->GetSendMessage());
      marked_.set_effect(absl::StrCat(marked_.effect(), mark_));
      batch->ModifySendMessage(&marked_);
    }
    batch->Proceed();
  }

 private:
  const std::string& mark_;
  ActReply marked_;
};

// The bytes taken from the batches of all calls, in order. Thread-safe.
class Taken {
 public:
  void Add(std::string bytes) {
    MutexLock lock(mutex_);
    all_.push_back(std::move(bytes));
  }
  std::vector<std::string> all() {
    MutexLock lock(mutex_);
    return all_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> all_ ABSL_GUARDED_BY(mutex_);
};

// Requests the bytes, which removes the message from the batch.
class Taking final : public Interceptor {
 public:
  explicit Taking(Taken* taken) : taken_(*taken) {}
  void Intercept(Batch* batch) override {
    if (batch->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      const grpc::ByteBuffer* bytes = batch->GetSerializedSendMessage();
      grpc::Slice slice;
      if (!bytes->Valid()) {
        taken_.Add("nothing");
      } else if (bytes->DumpToSingleSlice(&slice).ok()) {
        taken_.Add(std::string(slice.begin(), slice.end()));
      }
    }
    batch->Proceed();
  }

 private:
  Taken& taken_;
};

class GuardAndInterceptors : public GuardFixture {
 protected:
  template <typename Made, typename Argument>
  GuardedServer& ServeBehindGuard(Argument& argument) {
    return Serve(WithMap(), [&argument](GuardedServer::Options& options) {
      options.guard.recording_timeout = absl::Seconds(1);
      options.interceptors.push_back(std::make_unique<FactoryOf<Made, Argument>>(&argument));
    });
  }

  // The order of a map distinguishes stored bytes from a message serialised again.
  ProbeHandler WithMap() {
    return [this](grpc::ServerContextBase&, const ActRequest&, ActReply& reply) {
      for (int i = 0; i < 32; ++i) (*reply.mutable_notes())[absl::StrCat("k", i)] = "v";
      reply.set_effect("paid");
      reply.set_total(++runs_);
      return grpc::Status::OK;
    };
  }
};

// The record is the handler's reply. An interceptor behind the guard makes its change again for
// each answer, first reply and replay alike: once, not on top of an earlier change, and as the
// currently installed interceptor does.
TEST_P(GuardAndInterceptors, ReplacedMessageIsSentAndTheHandlersOwnIsRecorded) {
  std::string mark = "!";
  GuardedServer& server = ServeBehindGuard<Marking>(mark);
  const ProbeClient client(server.address());
  const Outcome first = client.Act("marked");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.reply().effect(), "paid!");
  for (int i = 0; i < 2; ++i) {
    const Outcome retry = client.Act("marked");
    EXPECT_TRUE(retry.replayed());
    EXPECT_EQ(retry.reply().effect(), "paid!");
    EXPECT_EQ(retry.reply().notes().size(), 32);
  }
  ActReply recorded;
  ASSERT_TRUE(recorded.ParseFromString(Get(first.Trailer("idempotency-record")).reply().body()));
  EXPECT_EQ(recorded.effect(), "paid");

  mark = "?";
  EXPECT_EQ(client.Act("marked").reply().effect(), "paid?");
  EXPECT_EQ(runs_, 1);
}

TEST_P(GuardAndInterceptors, SerializedMessageIsTheOneThatIsSent) {
  Taken taken;
  GuardedServer& server = ServeBehindGuard<Taking>(taken);
  const ProbeClient client(server.address());
  const Outcome first = client.Act("taken");
  ASSERT_TRUE(first.status.ok()) << first.status.error_message();
  EXPECT_EQ(first.reply().total(), 1);
  const Outcome retry = client.Act("taken");
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.body, first.body);
  EXPECT_EQ(taken.all(), std::vector<std::string>({first.body, first.body}));
  EXPECT_EQ(Get(first.Trailer("idempotency-record")).reply().body(), first.body);
  EXPECT_EQ(client.Act("taken", 7).reason(), Reason::kKeyReused);
  EXPECT_EQ(runs_, 1);
}

// A reply that must not be sent is withheld from them too.
TEST_P(GuardAndInterceptors, WithheldMessageIsNotThereToBeTakenOrReplaced) {
  Taken taken;
  std::string mark = "!";
  GuardedServer& server = Serve(WithMap(), [&](GuardedServer::Options& options) {
    options.guard.recording_timeout = absl::Milliseconds(300);
    options.interceptors.push_back(std::make_unique<FactoryOf<Marking, std::string>>(&mark));
    options.interceptors.push_back(std::make_unique<FactoryOf<Taking, Taken>>(&taken));
  });
  const ProbeClient client(server.address());
  gate_->FailCompletes(MakeError(Reason::kStoreUnavailable, "as the test asked"));
  const Outcome withheld = client.Act("withheld");
  EXPECT_EQ(withheld.reason(), Reason::kOutcomeNotRecorded);
  EXPECT_EQ(withheld.body, "");
  EXPECT_EQ(taken.all(), std::vector<std::string>({"nothing"}));
  gate_->FailCompletes(absl::OkStatus());
  const Outcome retry = client.SendUntilSettled(With("withheld"), kLong);
  EXPECT_TRUE(retry.replayed());
  EXPECT_EQ(retry.reply().effect(), "paid!");
  EXPECT_EQ(runs_, 1);
}

INSTANTIATE_TEST_SUITE_P(BothApis, GuardAndInterceptors,
                         ::testing::Values(Api::kSync, Api::kCallback), ApiName);

}  // namespace
}  // namespace idempotency::internal::testing

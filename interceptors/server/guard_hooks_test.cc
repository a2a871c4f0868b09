// Hooks and traces in a real server, over a fake store.
#include "grpc_idempotency/server_guard/guard_hooks.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"

#include "client/testing/fake_connection.h"
#include "core/mutex.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"
#include "grpc_idempotency/idempotency_key.h"
#include "grpc_idempotency/server_guard/server_guard.h"
#include "interceptors/server/testing/guarded_till.h"
#include "testdata/till.grpc.pb.h"

namespace idempotency::internal {
namespace {

using testdata::ChargeReply;
using testdata::ChargeRequest;
using testdata::Till;
using testing::ElementsAre;

constexpr char kFirst[] = "00-11111111111111111111111111111111-1111111111111111-01";
constexpr char kSecond[] = "00-22222222222222222222222222222222-2222222222222222-01";

class Cashier final : public Till::Service {
 public:
  grpc::Status Charge(grpc::ServerContext*, const ChargeRequest*, ChargeReply*) override {
    return answer;
  }
  grpc::Status answer;
};

// A line for every event.
class Diary {
 public:
  GuardHooks Hooks() {
    GuardHooks hooks;
    hooks.on_verdict = [this](const VerdictEvent& event) {
      Write("verdict " + std::to_string(static_cast<int>(event.verdict)) + " attempt " +
            std::to_string(event.attempt) + (event.record_id.empty() ? " no record" : "") + " in " +
            Short(event.traceparent) + " first " + Short(event.first_traceparent) + " " +
            std::string(ReasonOf(event.status).has_value() ? ReasonName(*ReasonOf(event.status))
                                                           : "OK"));
    };
    hooks.on_recorded = [this](const RecordedEvent& event) {
      Write("recorded code " + std::to_string(static_cast<int>(event.code)) + " disposition " +
            std::to_string(static_cast<int>(event.disposition)) + " attempt " +
            std::to_string(event.attempt) + " in " + Short(event.traceparent) + " " +
            std::string(ReasonOf(event.outcome).has_value() ? ReasonName(*ReasonOf(event.outcome))
                                                            : "OK"));
    };
    return hooks;
  }

  std::vector<std::string> Lines() {
    MutexLock lock(mutex_);
    return lines_;
  }

 private:
  // The first digit of the trace id.
  static std::string Short(const std::string& traceparent) {
    return traceparent.empty() ? "-" : traceparent.substr(3, 1);
  }
  void Write(std::string line) {
    MutexLock lock(mutex_);
    lines_.push_back(std::move(line));
  }

  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

class KeptSpans final : public GuardTracer {
 public:
  void OnSpanEnd(GuardSpan span) override {
    {
      const MutexLock lock(mutex_);
      spans_.push_back(std::move(span));
    }
    if (throws) throw std::runtime_error("thrown by a tracer");
  }
  std::vector<GuardSpan> spans() {
    const MutexLock lock(mutex_);
    return spans_;
  }

  bool throws = false;

 private:
  Mutex mutex_;
  std::vector<GuardSpan> spans_ ABSL_GUARDED_BY(mutex_);
};

class GuardHooksTest : public GuardedTill {
 protected:
  GuardHooksTest() {
    options_.name_space = "tills";
    options_.verdict_timeout = absl::Milliseconds(300);
    options_.hooks = diary_.Hooks();
  }
  void Start() { Serve(cashier_); }

  // The value of `idempotency-traceparent`, and the status.
  std::string Charge(const std::string& traceparent, int amount_cents = 100) {
    grpc::ClientContext context;
    context.AddMetadata(std::string(kKeyMetadata), "order-1");
    if (!traceparent.empty()) context.AddMetadata("traceparent", traceparent);
    ChargeRequest request;
    request.set_amount_cents(amount_cents);
    ChargeReply reply;
    status_ = stub_->Charge(&context, request, &reply);
    const auto found =
        context.GetServerTrailingMetadata().find({kTraceMetadata.data(), kTraceMetadata.size()});
    if (found == context.GetServerTrailingMetadata().end()) return "";
    return std::string(found->second.data(), found->second.size());
  }

  Diary diary_;
  Cashier cashier_;
  grpc::Status status_;
};

TEST_F(GuardHooksTest, AReplayLeadsToTheFirstAttemptsTrace) {
  Start();
  EXPECT_EQ(Charge(kFirst), "");
  EXPECT_EQ(Charge(kSecond), kFirst);
  EXPECT_THAT(diary_.Lines(), ElementsAre("verdict 0 attempt 1 in 1 first - OK",
                                          "recorded code 0 disposition 0 attempt 1 in 1 OK",
                                          "verdict 1 attempt 1 in 2 first 1 OK"));
}

// The cache has the same reply as the store: with its code alone.
TEST_F(GuardHooksTest, AReplyThatWasNotKeptIsReportedWithTheStatusOfItsCaller) {
  MethodPolicy policy;
  policy.reply = MethodPolicy::Reply::kStatusOnly;
  options_.methods["/idempotency.testdata.Till/Charge"].policy = policy;
  const auto tracer = std::make_shared<KeptSpans>();
  options_.tracer = tracer;
  Start();
  Charge(kFirst);
  Charge(kSecond);
  EXPECT_EQ(ReasonOf(FromGrpcStatus(status_)), Reason::kReplyNotKept) << status_.error_message();
  EXPECT_EQ(store_->calls(FakeConnection::Operation::kReserve), 1) << "answered by the cache";
  EXPECT_EQ(diary_.Lines().back(), "verdict 1 attempt 1 in 2 first 1 REPLY_NOT_KEPT");
  EXPECT_EQ(ReasonOf(tracer->spans().back().status), Reason::kReplyNotKept);
}

TEST_F(GuardHooksTest, WhatIsNoTraceparentIsNotKept) {
  Start();
  EXPECT_EQ(Charge("00-nonsense"), "");
  EXPECT_EQ(Charge(kSecond), "");
}

// gRPC aborts the process on metadata that is not ASCII; the label is another client's.
TEST_F(GuardHooksTest, AReplayIsSentWithoutMetadataThatGrpcDoesNotAccept) {
  Start();
  v1::ReserveResponse verdict;
  verdict.mutable_replay()->mutable_reply()->set_body("");
  (*verdict.mutable_replay()->mutable_labels())["traceparent"] = "00-\xc3\xa9";
  verdict.set_record_id("\xc3\xa9");
  store_->SetVerdict(verdict);
  EXPECT_EQ(Charge(kSecond), "");
  EXPECT_TRUE(status_.ok()) << status_.error_message();
}

TEST_F(GuardHooksTest, RefusalsAndFailuresAreReported) {
  Start();
  cashier_.answer = grpc::Status(grpc::StatusCode::INTERNAL, "no");
  Charge("");
  Charge("", 200);
  store_->Fail(FakeConnection::Operation::kReserve, absl::UnavailableError("away"), 1000);
  Charge("");
  EXPECT_THAT(diary_.Lines(), ElementsAre("verdict 0 attempt 1 in - first - OK",
                                          "recorded code 13 disposition 4 attempt 1 in - OK",
                                          "verdict 3 attempt 1 in - first - KEY_REUSED",
                                          "verdict 6 attempt 0 no record in - first - "
                                          "STORE_UNAVAILABLE"));
}

TEST_F(GuardHooksTest, WhatAHookThrowsChangesNothing) {
  options_.hooks.on_verdict = [](const VerdictEvent&) { throw std::runtime_error("no"); };
  options_.hooks.on_recorded = [](const RecordedEvent&) { throw 1; };
  Start();
  Charge(kFirst);
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_EQ(Charge(kSecond), kFirst);
  EXPECT_TRUE(status_.ok()) << status_.error_message();
}

std::string HexOf(const GuardSpan::SpanId& id) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(id.data()), id.size()));
}

TEST_F(GuardHooksTest, ATracerGetsTheSpansOfASampledCall) {
  const auto tracer = std::make_shared<KeptSpans>();
  options_.tracer = tracer;
  Start();
  Charge(kFirst);
  const std::vector<GuardSpan> first = tracer->spans();
  ASSERT_EQ(first.size(), 2);
  EXPECT_EQ(first[0].name, "idempotency admission");
  EXPECT_EQ(first[1].name, "idempotency recording");
  for (const GuardSpan& span : first) {
    EXPECT_EQ(span.trace_id[0], 0x11);
    EXPECT_EQ(HexOf(span.parent_span_id), "1111111111111111");
    EXPECT_LE(span.start, span.end);
    EXPECT_TRUE(span.status.ok());
    EXPECT_TRUE(span.links.empty());
  }
  EXPECT_NE(first[0].span_id, first[1].span_id);
  // The daemon's spans are children of the admission, and the record leads to it; the hooks have
  // the call's own.
  EXPECT_EQ(Charge(kSecond),
            "00-11111111111111111111111111111111-" + HexOf(first[0].span_id) + "-01");
  EXPECT_EQ(diary_.Lines().front(), "verdict 0 attempt 1 in 1 first - OK");
  const std::vector<GuardSpan> all = tracer->spans();
  ASSERT_EQ(all.size(), 3);
  ASSERT_EQ(all[2].links.size(), 1);
  EXPECT_EQ(all[2].links[0].trace_id, first[0].trace_id);
  EXPECT_EQ(all[2].links[0].span_id, first[0].span_id);
  // A mismatch.
  Charge(kSecond, 200);
  EXPECT_EQ(ReasonOf(tracer->spans().back().status), Reason::kKeyReused);
}

TEST_F(GuardHooksTest, WithoutASampledTraceThereIsNoSpan) {
  const auto tracer = std::make_shared<KeptSpans>();
  options_.tracer = tracer;
  Start();
  Charge("");
  Charge("00-11111111111111111111111111111111-1111111111111111-00");
  Charge("nonsense");
  EXPECT_TRUE(tracer->spans().empty());
}

TEST_F(GuardHooksTest, WhatATracerThrowsChangesNothing) {
  const auto tracer = std::make_shared<KeptSpans>();
  tracer->throws = true;
  options_.tracer = tracer;
  Start();
  Charge(kFirst);
  EXPECT_TRUE(status_.ok()) << status_.error_message();
  EXPECT_EQ(tracer->spans().size(), 2);
}

}  // namespace
}  // namespace idempotency::internal

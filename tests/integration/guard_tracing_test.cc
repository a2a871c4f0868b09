// One trace from a client through a guarded server and idempotencyd to its store, at one collector.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "grpc_idempotency/guard_tracing/otlp_guard_tracer.h"
#include "tests/support/daemon_process.h"
#include "tests/support/probe_client.h"
#include "tests/support/probe_server.h"
#include "tests/support/temp_folder.h"
#include "tracing/testing/span_collector.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::SpanCollector;
using Span = SpanCollector::Span;

constexpr char kFirst[] = "00-11111111111111111111111111111111-aaaaaaaaaaaaaaaa-01";
constexpr char kSecond[] = "00-22222222222222222222222222222222-bbbbbbbbbbbbbbbb-01";
constexpr char kNotSampled[] = "00-33333333333333333333333333333333-cccccccccccccccc-00";

std::string Attribute(const Span& span, const std::string& name) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() != name) continue;
    const auto& value = attribute.value();
    return value.has_int_value() ? absl::StrCat(value.int_value()) : value.string_value();
  }
  return "";
}

// The only span of that name in the trace whose id consists of `digit`.
Span Find(const std::vector<Span>& spans, char digit, const std::string& name) {
  std::vector<Span> found;
  for (const Span& span : spans) {
    if (span.name() == name && absl::BytesToHexString(span.trace_id()) == std::string(32, digit)) {
      found.push_back(span);
    }
  }
  EXPECT_EQ(found.size(), 1u) << name;
  return found.empty() ? Span() : found.front();
}

std::string Parent(const Span& span) { return absl::BytesToHexString(span.parent_span_id()); }

class GuardTracingTest : public ::testing::Test {
 protected:
  GuardTracingTest()
      : daemon_(absl::StrCat("sqlite:", folder_.File("records.db")),
                {absl::StrCat("--otlp_endpoint=", collector_.address())}) {
    OtlpGuardTracerOptions exporting;
    exporting.service_name = "payments";
    tracer_ = std::make_shared<OtlpGuardTracer>(
        grpc::CreateChannel(collector_.address(), grpc::InsecureChannelCredentials()), exporting);
    testing::ProbeServer::Options options;
    options.idempotencyd = daemon_.address();
    options.guard.tracer = tracer_;
    options.handler = [](grpc::ServerContextBase&, const testing::ActRequest&, testing::ActReply&) {
      return grpc::Status::OK;
    };
    server_ = std::make_unique<testing::ProbeServer>(std::move(options));
  }

  testing::Outcome Act(const std::string& traceparent, std::int64_t amount = 1) {
    testing::Call call;
    call.account = "canary-account";
    call.keys = {"canary-key"};
    call.amount = amount;
    if (!traceparent.empty()) call.metadata.emplace("traceparent", traceparent);
    return testing::ProbeClient(server_->address()).Send(call);
  }

  SpanCollector collector_;
  testing::TempFolder folder_;
  testing::DaemonProcess daemon_;
  std::shared_ptr<OtlpGuardTracer> tracer_;
  std::unique_ptr<testing::ProbeServer> server_;
};

TEST_F(GuardTracingTest, ACallIsOneTraceOfGuardDaemonAndStore) {
  ASSERT_TRUE(Act(kFirst).status.ok());
  // Admission, Reserve, its store call, recording.
  const std::vector<Span> spans = collector_.AwaitSpans(4);
  ASSERT_EQ(spans.size(), 4u);
  const Span admission = Find(spans, '1', "idempotency admission");
  const Span daemon = Find(spans, '1', "idempotency.v1.IdempotencyService/Reserve");
  const Span store = Find(spans, '1', "Reserve");
  const Span recording = Find(spans, '1', "idempotency recording");
  EXPECT_EQ(Parent(admission), "aaaaaaaaaaaaaaaa");
  EXPECT_EQ(daemon.parent_span_id(), admission.span_id());
  EXPECT_EQ(store.parent_span_id(), daemon.span_id());
  EXPECT_EQ(Parent(recording), "aaaaaaaaaaaaaaaa");
  EXPECT_EQ(admission.kind(), Span::SPAN_KIND_INTERNAL);
  EXPECT_EQ(Attribute(admission, "idempotency.verdict"), "reserved");
  EXPECT_EQ(Attribute(admission, "idempotency.attempt"), "1");
  EXPECT_EQ(Attribute(admission, "idempotency.record_id"),
            Attribute(daemon, "idempotency.record_id"));
  EXPECT_EQ(Attribute(recording, "idempotency.disposition"), "complete");
  EXPECT_LE(admission.start_time_unix_nano(), admission.end_time_unix_nano());
  EXPECT_LE(admission.end_time_unix_nano(), recording.end_time_unix_nano());
}

TEST_F(GuardTracingTest, AReplayLinksToTheFirstAttemptsTrace) {
  ASSERT_TRUE(Act(kFirst).status.ok());
  const testing::Outcome replayed = Act(kSecond);
  ASSERT_TRUE(replayed.replayed());
  EXPECT_THAT(replayed.Trailer("idempotency-traceparent"),
              HasSubstr("11111111111111111111111111111111"));
  // A different request, which does not run.
  EXPECT_FALSE(Act(kSecond, 2).status.ok());

  const std::vector<Span> spans = collector_.AwaitSpans(10);
  const Span first = Find(spans, '1', "idempotency admission");
  int replays = 0;
  int mismatches = 0;
  for (const Span& span : spans) {
    if (span.name() != "idempotency admission") continue;
    if (Attribute(span, "idempotency.verdict") == "mismatch") {
      ++mismatches;
      EXPECT_EQ(Attribute(span, "error.type"), "KEY_REUSED");
      EXPECT_EQ(span.links_size(), 0);
    }
    if (Attribute(span, "idempotency.verdict") != "replay") continue;
    ++replays;
    ASSERT_EQ(span.links_size(), 1);
    EXPECT_EQ(span.links(0).trace_id(), first.trace_id());
    EXPECT_EQ(span.links(0).span_id(), first.span_id());
  }
  EXPECT_EQ(replays, 1);
  EXPECT_EQ(mismatches, 1);

  const std::string bytes = collector_.bytes();
  EXPECT_THAT(bytes, Not(HasSubstr("canary")));
  EXPECT_THAT(bytes, HasSubstr("payments"));
}

TEST_F(GuardTracingTest, WhatIsNotSampledHasNoSpanAnywhere) {
  ASSERT_TRUE(Act(kNotSampled).status.ok());
  ASSERT_TRUE(Act("").replayed());
  // The spans of a later call, of each exporter, are the only ones.
  ASSERT_TRUE(Act(kFirst).replayed());
  const std::vector<Span> spans = collector_.AwaitSpans(3);
  EXPECT_EQ(spans.size(), 3u);
  for (const Span& span : spans) {
    EXPECT_EQ(absl::BytesToHexString(span.trace_id()), std::string(32, '1'));
  }
}

}  // namespace
}  // namespace idempotency::internal

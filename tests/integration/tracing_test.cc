// Spans of a real idempotencyd at a collector: the parents are those of the callers, a replay leads
// to the trace of the attempt that ran first, and there is nothing of a caller's data in them.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "idempotency/v1/idempotency_service.grpc.pb.h"
#include "tests/support/certificate_authority.h"
#include "tests/support/daemon_process.h"
#include "tests/support/service_client.h"
#include "tests/support/temp_folder.h"
#include "tracing/testing/span_collector.h"

namespace idempotency::internal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using testing::SpanCollector;

constexpr char kFirst[] = "00-11111111111111111111111111111111-aaaaaaaaaaaaaaaa-01";
constexpr char kSecond[] = "00-22222222222222222222222222222222-bbbbbbbbbbbbbbbb-01";
constexpr char kNotSampled[] = "00-33333333333333333333333333333333-cccccccccccccccc-00";

std::string Attribute(const SpanCollector::Span& span, const std::string& name) {
  for (const auto& attribute : span.attributes()) {
    if (attribute.key() != name) continue;
    const auto& value = attribute.value();
    return value.has_int_value() ? absl::StrCat(value.int_value()) : value.string_value();
  }
  return "";
}

// The spans of operations, without those of store calls.
std::vector<SpanCollector::Span> ServerSpans(std::vector<SpanCollector::Span> spans) {
  spans.erase(std::remove_if(spans.begin(), spans.end(),
                             [](const SpanCollector::Span& span) {
                               return span.kind() != SpanCollector::Span::SPAN_KIND_SERVER;
                             }),
              spans.end());
  return spans;
}

class TracingTest : public ::testing::Test {
 protected:
  TracingTest()
      : daemon_(absl::StrCat("sqlite:", folder_.File("records.db")),
                {absl::StrCat("--otlp_endpoint=", collector_.address())}),
        stub_(v1::IdempotencyService::NewStub(
            grpc::CreateChannel(daemon_.address(), grpc::InsecureChannelCredentials()))) {}

  v1::ReserveResponse Reserve(v1::ReserveRequest request, const std::string& traceparent) {
    grpc::ClientContext context;
    if (!traceparent.empty()) context.AddMetadata("traceparent", traceparent);
    v1::ReserveResponse response;
    EXPECT_TRUE(stub_->Reserve(&context, request, &response).ok());
    return response;
  }

  SpanCollector collector_;
  testing::TempFolder folder_;
  testing::DaemonProcess daemon_;
  std::unique_ptr<v1::IdempotencyService::Stub> stub_;
};

TEST_F(TracingTest, AReplayLeadsToTheFirstAttempt) {
  v1::ReserveRequest request = testing::SomeReserve("canary-key");
  // As guards do, also in sessions: the record keeps it.
  (*request.mutable_labels())["traceparent"] = kFirst;
  const v1::ReserveResponse reserved = Reserve(request, "");
  {
    grpc::ClientContext context;
    context.AddMetadata("traceparent", kFirst);
    v1::CompleteResponse response;
    ASSERT_TRUE(
        stub_
            ->Complete(&context,
                       testing::SomeComplete("canary-key", reserved.reserved().reservation_token(),
                                             "canary-body"),
                       &response)
            .ok());
  }
  (*request.mutable_labels())["traceparent"] = kSecond;
  ASSERT_EQ(Reserve(request, "").verdict_case(), v1::ReserveResponse::kReplay);

  // One of the store's call for each, which is not of interest here.
  const auto spans = ServerSpans(collector_.AwaitSpans(6));
  ASSERT_EQ(spans.size(), 3);
  EXPECT_EQ(absl::BytesToHexString(spans[0].trace_id()), "11111111111111111111111111111111");
  EXPECT_EQ(absl::BytesToHexString(spans[0].parent_span_id()), "aaaaaaaaaaaaaaaa");
  EXPECT_EQ(spans[0].name(), "idempotency.v1.IdempotencyService/Reserve");
  EXPECT_EQ(Attribute(spans[0], "idempotency.verdict"), "reserved");
  EXPECT_EQ(Attribute(spans[0], "idempotency.record_id"), reserved.record_id());
  EXPECT_EQ(Attribute(spans[0], "rpc.grpc.status_code"), "0");
  EXPECT_EQ(spans[0].links_size(), 0);
  EXPECT_GE(spans[0].end_time_unix_nano(), spans[0].start_time_unix_nano());

  EXPECT_EQ(spans[1].name(), "idempotency.v1.IdempotencyService/Complete");

  EXPECT_EQ(absl::BytesToHexString(spans[2].trace_id()), "22222222222222222222222222222222");
  EXPECT_EQ(Attribute(spans[2], "idempotency.verdict"), "replay");
  ASSERT_EQ(spans[2].links_size(), 1);
  EXPECT_EQ(absl::BytesToHexString(spans[2].links(0).trace_id()),
            "11111111111111111111111111111111");

  const std::string bytes = collector_.bytes();
  EXPECT_THAT(bytes, Not(HasSubstr("canary")));
  EXPECT_THAT(bytes, Not(HasSubstr(testing::SomeRecordKey("k").scope())));
  EXPECT_THAT(bytes, Not(HasSubstr(reserved.reserved().reservation_token())));
}

TEST_F(TracingTest, TheCallersSpanIsTheParentAndSamplingIsTheCallers) {
  v1::ReserveRequest request = testing::SomeReserve("one");
  (*request.mutable_labels())["traceparent"] = kFirst;
  Reserve(testing::SomeReserve("nothing"), "");
  Reserve(testing::SomeReserve("not-sampled"), kNotSampled);
  Reserve(testing::SomeReserve("no-traceparent"), "00-nonsense");
  // Metadata is of this very call, a label of the guarded one.
  Reserve(request, kSecond);
  const auto spans = collector_.AwaitSpans(2);
  ASSERT_EQ(spans.size(), 2);
  const SpanCollector::Span& call = spans[0];
  const SpanCollector::Span& operation = spans[1];
  EXPECT_EQ(absl::BytesToHexString(operation.parent_span_id()), "bbbbbbbbbbbbbbbb");

  // The store's call has begun, and ended, within the operation.
  EXPECT_EQ(call.trace_id(), operation.trace_id());
  EXPECT_EQ(call.parent_span_id(), operation.span_id());
  EXPECT_NE(call.span_id(), operation.span_id());
  EXPECT_EQ(call.kind(), SpanCollector::Span::SPAN_KIND_CLIENT);
  EXPECT_EQ(call.name(), "Reserve");
  EXPECT_EQ(Attribute(call, "db.system"), "sqlite");
  EXPECT_EQ(Attribute(call, "db.operation.name"), "Reserve");
  EXPECT_EQ(Attribute(call, "db.operation.batch.size"), "");
  EXPECT_LE(call.end_time_unix_nano(), operation.end_time_unix_nano());
}

TEST_F(TracingTest, AFrozenCollectorHoldsNothingUp) {
  collector_.Freeze();
  v1::ReserveRequest request = testing::SomeReserve("one");
  for (int i = 0; i < 200; ++i) {
    request.mutable_record_key()->set_key(absl::StrCat("key-", i));
    EXPECT_EQ(Reserve(request, kFirst).verdict_case(), v1::ReserveResponse::kReserved);
  }
  EXPECT_GE(collector_.AwaitCalls(1), 1);
}

// A collector on a name of this machine, which needs a certificate that the daemon trusts.
class TlsTracingTest : public ::testing::Test {
 protected:
  TlsTracingTest() {
    const auto identity = authority_.Issue("collector", "DNS:localhost");
    grpc::SslServerCredentialsOptions options;
    options.pem_key_cert_pairs.push_back({identity.key, identity.certificate});
    collector_ = std::make_unique<SpanCollector>(grpc::SslServerCredentials(options));
    port_ = collector_->address().substr(collector_->address().rfind(':'));
    std::ofstream(folder_.File("trusted.pem")) << authority_.root();
    std::ofstream(folder_.File("other.pem")) << other_authority_.root();
  }

  std::unique_ptr<testing::DaemonProcess> Start(const std::string& ca) {
    return std::make_unique<testing::DaemonProcess>(
        absl::StrCat("sqlite:", folder_.File("records.db")),
        std::vector<std::string>{absl::StrCat("--otlp_endpoint=localhost", port_),
                                 absl::StrCat("--otlp_ca=", folder_.File(ca))});
  }

  static void ReserveSampled(const testing::DaemonProcess& daemon) {
    const auto stub = v1::IdempotencyService::NewStub(
        grpc::CreateChannel(daemon.address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.AddMetadata("traceparent", kFirst);
    v1::ReserveResponse response;
    EXPECT_TRUE(stub->Reserve(&context, testing::SomeReserve("key"), &response).ok());
  }

  testing::TempFolder folder_;
  testing::CertificateAuthority authority_;
  testing::CertificateAuthority other_authority_;
  std::unique_ptr<SpanCollector> collector_;
  std::string port_;
};

TEST_F(TlsTracingTest, SpansGoToACollectorThatTheAuthorityCertified) {
  const auto daemon = Start("trusted.pem");
  ReserveSampled(*daemon);
  EXPECT_EQ(collector_->AwaitSpans(2).size(), 2);
}

TEST_F(TlsTracingTest, NoSpanGoesToAnyOtherCollector) {
  auto daemon = Start("other.pem");
  ReserveSampled(*daemon);
  // Its end sends what is queued.
  daemon->Terminate();
  EXPECT_THAT(daemon->process().Stderr(), HasSubstr("spans cannot be exported"));
  EXPECT_EQ(collector_->bytes(), "");
}

}  // namespace
}  // namespace idempotency::internal

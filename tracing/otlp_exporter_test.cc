#include "tracing/otlp_exporter.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"

#include "tracing/testing/span_collector.h"

namespace idempotency::internal {
namespace {

using testing::SpanCollector;

struct Counts {
  OtlpExporter::Events Events() {
    return {[this](std::size_t spans) { exported += static_cast<int>(spans); },
            [this](std::size_t spans) { dropped += static_cast<int>(spans); },
            [this](const absl::Status& status) { (status.ok() ? recoveries : outages) += 1; }};
  }

  std::atomic<int> exported{0};
  std::atomic<int> dropped{0};
  std::atomic<int> outages{0};
  std::atomic<int> recoveries{0};
};

OtlpExporter::Options Quick() {
  OtlpExporter::Options options;
  options.service = "a-service";
  options.version = "1.2.3";
  options.max_queued = 4;
  options.max_batch = 2;
  options.linger = absl::Milliseconds(1);
  options.backoff = absl::Milliseconds(1);
  return options;
}

Span SomeSpan(const std::string& name) {
  Span span;
  span.parent = *ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
  span.id = NewSpanId();
  span.name = name;
  span.start = absl::FromUnixNanos(1'000'000'001);
  span.end = absl::FromUnixNanos(1'000'000'009);
  span.attributes = {{"text", std::string("a")}, {"number", std::int64_t{7}}, {"flag", true}};
  span.links.push_back({span.parent, "first_attempt"});
  span.failed = true;
  return span;
}

class OtlpExporterTest : public ::testing::Test {
 protected:
  std::unique_ptr<OtlpExporter> Start(const OtlpExporter::Options& options = Quick()) {
    return std::make_unique<OtlpExporter>(
        grpc::CreateChannel(collector_.address(), grpc::InsecureChannelCredentials()), options,
        counts_.Events());
  }

  SpanCollector collector_;
  Counts counts_;
};

TEST_F(OtlpExporterTest, SendsWhatASpanHas) {
  const auto exporter = Start();
  exporter->Record(SomeSpan("one"));
  const auto spans = collector_.AwaitSpans(1);
  ASSERT_EQ(spans.size(), 1);
  const auto& span = spans[0];
  EXPECT_EQ(span.name(), "one");
  EXPECT_EQ(span.trace_id().size(), 16);
  EXPECT_EQ(span.span_id().size(), 8);
  EXPECT_EQ(span.parent_span_id(), std::string("\x00\xf0\x67\xaa\x0b\xa9\x02\xb7", 8));
  EXPECT_EQ(span.start_time_unix_nano(), 1'000'000'001);
  EXPECT_EQ(span.end_time_unix_nano(), 1'000'000'009);
  ASSERT_EQ(span.attributes_size(), 3);
  EXPECT_EQ(span.attributes(0).value().string_value(), "a");
  EXPECT_EQ(span.attributes(1).value().int_value(), 7);
  EXPECT_TRUE(span.attributes(2).value().bool_value());
  ASSERT_EQ(span.links_size(), 1);
  EXPECT_EQ(span.links(0).trace_id(), span.trace_id());
  EXPECT_EQ(span.status().code(), opentelemetry::proto::trace::v1::Status::STATUS_CODE_ERROR);
  EXPECT_THAT(collector_.bytes(), ::testing::HasSubstr("a-service"));
}

TEST_F(OtlpExporterTest, SendsTheRestAtItsEnd) {
  OtlpExporter::Options options = Quick();
  options.linger = absl::Hours(1);
  options.max_batch = 1000;
  options.max_queued = 1000;
  auto exporter = Start(options);
  for (int i = 0; i < 100; ++i) exporter->Record(SomeSpan(absl::StrCat(i)));
  exporter.reset();
  EXPECT_EQ(collector_.AwaitSpans(100).size(), 100);
  EXPECT_EQ(counts_.exported, 100);
  EXPECT_EQ(counts_.dropped, 0);
}

TEST_F(OtlpExporterTest, AFrozenCollectorCostsSpansAndNoTime) {
  OtlpExporter::Options options = Quick();
  options.call_timeout = absl::Minutes(10);
  options.max_batch = 1;
  collector_.Freeze();
  auto exporter = Start(options);
  exporter->Record(SomeSpan("at the collector"));
  ASSERT_EQ(collector_.AwaitCalls(1), 1);
  // Returns although nothing moves: four wait, the others are lost.
  for (int i = 0; i < 100; ++i) exporter->Record(SomeSpan(absl::StrCat(i)));
  EXPECT_EQ(counts_.dropped, 96);
  collector_.Thaw();
  EXPECT_EQ(collector_.AwaitSpans(5).size(), 5);
}

TEST_F(OtlpExporterTest, RepeatsWhatMayHelpOnly) {
  OtlpExporter::Options options = Quick();
  options.max_batch = 1;
  collector_.AnswerWith({grpc::StatusCode::UNAVAILABLE, "busy"});
  auto exporter = Start(options);
  exporter->Record(SomeSpan("one"));
  // Each of max_tries, then it is given up.
  EXPECT_EQ(collector_.AwaitCalls(3), 3);
  while (counts_.dropped != 1) std::this_thread::yield();
  collector_.AnswerWith({grpc::StatusCode::INVALID_ARGUMENT, "wrong"});
  exporter->Record(SomeSpan("two"));
  EXPECT_EQ(collector_.AwaitCalls(4), 4);
  exporter.reset();
  EXPECT_EQ(collector_.AwaitCalls(4), 4);
  EXPECT_EQ(counts_.dropped, 2);
  EXPECT_EQ(counts_.exported, 0);
}

TEST_F(OtlpExporterTest, AFrozenCollectorDoesNotHoldUpTheEnd) {
  OtlpExporter::Options options = Quick();
  options.call_timeout = absl::Milliseconds(50);
  options.max_batch = 1;
  options.max_queued = 1000;
  options.max_tries = 1;
  collector_.Freeze();
  auto exporter = Start(options);
  for (int i = 0; i < 1000; ++i) exporter->Record(SomeSpan(absl::StrCat(i)));
  ASSERT_GE(collector_.AwaitCalls(1), 1);
  exporter.reset();
  // One per call until the end began, and all others at once.
  EXPECT_EQ(counts_.dropped, 1000);
  EXPECT_LT(collector_.AwaitCalls(1), 100);
}

TEST_F(OtlpExporterTest, ASlowCollectorDoesNotHoldUpTheEnd) {
  OtlpExporter::Options options = Quick();
  options.call_timeout = absl::Minutes(10);
  options.end_timeout = absl::ZeroDuration();
  options.max_batch = 1;
  options.max_queued = 5000;
  collector_.Freeze();
  auto exporter = Start(options);
  for (int i = 0; i < 5000; ++i) exporter->Record(SomeSpan(absl::StrCat(i)));
  ASSERT_EQ(collector_.AwaitCalls(1), 1);
  // It answers every call. Seconds pass until it has answered all; the end does not wait for them.
  std::thread ending([&exporter] { exporter.reset(); });
  collector_.Thaw();
  ending.join();
  EXPECT_EQ(counts_.exported + counts_.dropped, 5000);
  EXPECT_GT(counts_.dropped, 0);
}

TEST_F(OtlpExporterTest, EndsWithoutACollector) {
  OtlpExporter::Options options = Quick();
  auto exporter = std::make_unique<OtlpExporter>(
      grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()), options,
      counts_.Events());
  for (int i = 0; i < 10; ++i) exporter->Record(SomeSpan(absl::StrCat(i)));
  exporter.reset();
  EXPECT_EQ(counts_.exported, 0);
  EXPECT_EQ(counts_.dropped, 10);
  EXPECT_EQ(counts_.outages, 1);
}

}  // namespace
}  // namespace idempotency::internal

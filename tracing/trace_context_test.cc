#include "tracing/trace_context.h"

#include <gtest/gtest.h>

#include <set>

namespace idempotency::internal {
namespace {

constexpr std::string_view kExample = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContextTest, ReadsTheParts) {
  const auto context = ParseTraceparent(kExample);
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace_id[0], 0x4b);
  EXPECT_EQ(context->trace_id[15], 0x36);
  EXPECT_EQ(context->span_id[0], 0x00);
  EXPECT_EQ(context->span_id[7], 0xb7);
  EXPECT_TRUE(context->sampled);
  EXPECT_FALSE(
      ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00")->sampled);
  // Flags of later versions are ignored.
  EXPECT_TRUE(ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-ff")->sampled);
  EXPECT_FALSE(
      ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-fe")->sampled);
}

TEST(TraceContextTest, ReadsLaterVersions) {
  EXPECT_TRUE(ParseTraceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"));
  EXPECT_TRUE(ParseTraceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more"));
  EXPECT_FALSE(ParseTraceparent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01more"));
}

TEST(TraceContextTest, RefusesTheRest) {
  for (const char* wrong : {
           "",
           "00",
           "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
           "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
           "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
           "0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
           "00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
       }) {
    EXPECT_FALSE(ParseTraceparent(wrong).has_value()) << wrong;
  }
  for (std::size_t i = 0; i < kExample.size(); ++i) {
    EXPECT_FALSE(ParseTraceparent(kExample.substr(0, i)).has_value()) << i;
  }
}

TEST(TraceContextTest, SpanIdsDiffer) {
  std::set<SpanId> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(NewSpanId());
  EXPECT_EQ(ids.size(), 1000);
  EXPECT_EQ(ids.count(SpanId{}), 0);
}

TEST(TraceContextTest, FormatsWhatItParses) {
  for (const char* text : {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                           "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"}) {
    EXPECT_EQ(FormatTraceparent(*ParseTraceparent(text)), text);
  }
}

}  // namespace
}  // namespace idempotency::internal

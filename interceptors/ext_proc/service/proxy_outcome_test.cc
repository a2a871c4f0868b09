#include "interceptors/ext_proc/service/proxy_outcome.h"

#include <string>

#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

ProxyContext Stating(const std::string& details, double attempts) {
  envoy::service::ext_proc::v3::ProcessingRequest message;
  auto& fields = *(*message.mutable_attributes())["envoy.filters.http.ext_proc"].mutable_fields();
  if (!details.empty()) fields["response.code_details"].set_string_value(details);
  if (attempts >= 0) fields["upstream.request_attempt_count"].set_number_value(attempts);
  ProxyContext context;
  context.Add(message);
  return context;
}

TEST(ProxyOutcomeTest, OnlyViaUpstreamIsTheUpstreams) {
  EXPECT_EQ(OriginOf(Stating("via_upstream", 1)), ResponseOrigin::kUpstream);
  for (const char* other : {"upstream_response_timeout", "max_duration_timeout", "via_upstream2",
                            "upstream_reset_before_response_started{connection_termination}",
                            "ext_proc_error", "direct_response"}) {
    EXPECT_EQ(OriginOf(Stating(other, 1)), ResponseOrigin::kProxy) << other;
  }
  EXPECT_EQ(OriginOf(Stating("", 1)), ResponseOrigin::kUnstated);
}

TEST(ProxyOutcomeTest, OnlyAFirstAttemptWithoutAConnectionWasNotSent) {
  const std::string refused =
      "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error}";
  EXPECT_EQ(OriginOf(Stating(refused, 1)), ResponseOrigin::kNotSent);
  EXPECT_EQ(OriginOf(Stating("no_healthy_upstream", 0)), ResponseOrigin::kNotSent);
  EXPECT_EQ(OriginOf(Stating(refused, 2)), ResponseOrigin::kProxy);
  // Not stated: an earlier attempt may have run.
  EXPECT_EQ(OriginOf(Stating(refused, -1)), ResponseOrigin::kProxy);
}

}  // namespace
}  // namespace idempotency::internal

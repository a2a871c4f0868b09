#include "interceptors/ext_proc/service/proxy_outcome.h"

#include <string>

#include "absl/strings/str_cat.h"
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
                            "ext_proc_error", "direct_response"}) {
    EXPECT_EQ(OriginOf(Stating(other, 1)), ResponseOrigin::kProxy) << other;
  }
  EXPECT_EQ(OriginOf(Stating("", 1)), ResponseOrigin::kUnstated);
}

// Envoy's reasons of a reset: with a connection, the upstream may have the request.
TEST(ProxyOutcomeTest, AStreamThatIsResetMayHaveBeenSent) {
  for (const char* reason :
       {"connection_termination", "remote_reset", "remote_refused_stream_reset", "local_reset",
        "local_refused_stream_reset", "protocol_error", "overflow"}) {
    const std::string details =
        absl::StrCat("upstream_reset_before_response_started{", reason, "}");
    EXPECT_EQ(OriginOf(Stating(details, 1)), ResponseOrigin::kProxy) << details;
    const std::string late = absl::StrCat("upstream_reset_after_response_started{", reason, "}");
    EXPECT_EQ(OriginOf(Stating(late, 1)), ResponseOrigin::kProxy) << late;
  }
}

TEST(ProxyOutcomeTest, OnlyAFirstAttemptWithoutAConnectionWasNotSent) {
  for (const char* details :
       {"upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error}",
        "upstream_reset_before_response_started{remote_connection_failure}",
        "upstream_reset_before_response_started{local_connection_failure}", "no_healthy_upstream",
        "cluster_not_found", "route_not_found"}) {
    EXPECT_EQ(OriginOf(Stating(details, 0)), ResponseOrigin::kNotSent) << details;
    EXPECT_EQ(OriginOf(Stating(details, 1)), ResponseOrigin::kNotSent) << details;
    EXPECT_EQ(OriginOf(Stating(details, 2)), ResponseOrigin::kProxy) << details;
    // Not stated: an earlier attempt may have run.
    EXPECT_EQ(OriginOf(Stating(details, -1)), ResponseOrigin::kProxy) << details;
  }
  for (const char* other : {"no_healthy_upstream2", "cluster_not_found_", "a_route_not_found",
                            "upstream_reset_after_response_started{remote_connection_failure}"}) {
    EXPECT_EQ(OriginOf(Stating(other, 1)), ResponseOrigin::kProxy) << other;
  }
}

}  // namespace
}  // namespace idempotency::internal

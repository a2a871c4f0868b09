#include "interceptors/ext_proc/exchange/responses.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

// As many as a reply of kMaxReplyBytes may have, roughly.
constexpr int kManyHeaders = 100'000;

HttpMessage WithManyHeaders() {
  HttpMessage answer;
  answer.headers.Add(":status", "200");
  for (int i = 0; i < kManyHeaders; ++i) answer.headers.Add(absl::StrCat("x-header-", i), "1");
  return answer;
}

HttpMessage WithRepeatedHeaders() {
  HttpMessage answer;
  answer.headers = HeaderList({{":status", "201"},
                               {"x-a", "1"},
                               {"set-cookie", "a=1"},
                               {"x-a", "2"},
                               {"set-cookie", "b=2"},
                               {"x-a", "3"}});
  return answer;
}

TEST(ResponsesTest, AStreamedResponseHasEachHeaderOnce) {
  const ProcessingResponse response = StreamedHeadersOf(WithRepeatedHeaders(), false);
  const auto& headers = response.streamed_immediate_response().headers_response().headers();
  ASSERT_EQ(headers.headers_size(), 3);
  EXPECT_EQ(headers.headers(0).raw_value(), "201");
  EXPECT_EQ(headers.headers(1).raw_value(), "1,2,3");
  // Cookies cannot be joined: a response with several is not streamed.
  EXPECT_EQ(headers.headers(2).raw_value(), "b=2");
}

TEST(ResponsesTest, AnImmediateResponseRepeatsHeaders) {
  const ProcessingResponse response = ImmediateResponseOf(WithRepeatedHeaders());
  const auto& set = response.immediate_response().headers().set_headers();
  ASSERT_EQ(set.size(), 5);
  std::string values;
  std::string appended;
  for (const auto& option : set) {
    absl::StrAppend(&values, option.header().raw_value(), " ");
    absl::StrAppend(&appended, option.append().value() ? "+" : "-");
  }
  EXPECT_EQ(values, "1 a=1 2 b=2 3 ");
  EXPECT_EQ(appended, "--+++");
}

// A comparison of every header with every other takes minutes.
TEST(ResponsesTest, ManyHeadersTakeTimeInProportion) {
  const HttpMessage answer = WithManyHeaders();
  const absl::Time start = absl::Now();
  EXPECT_EQ(StreamedHeadersOf(answer, false)
                .streamed_immediate_response()
                .headers_response()
                .headers()
                .headers_size(),
            kManyHeaders + 1);
  EXPECT_EQ(ImmediateResponseOf(answer).immediate_response().headers().set_headers_size(),
            kManyHeaders);
  EXPECT_LT(absl::Now() - start, absl::Seconds(10));
}

}  // namespace
}  // namespace idempotency::internal

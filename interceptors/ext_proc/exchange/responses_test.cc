#include "interceptors/ext_proc/exchange/responses.h"

#include <time.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace idempotency::internal {
namespace {

HttpMessage WithHeaders(int count) {
  HttpMessage answer;
  answer.headers.Add(":status", "200");
  for (int i = 0; i < count; ++i) answer.headers.Add(absl::StrCat("x-header-", i), "1");
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

// Of this thread: not that of others on the machine.
double ProcessorSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// The least of three times.
double SecondsFor(int headers) {
  const HttpMessage answer = WithHeaders(headers);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const double start = ProcessorSeconds();
    const ProcessingResponse streamed = StreamedHeadersOf(answer, false);
    const ProcessingResponse immediate = ImmediateResponseOf(answer);
    least = std::min(least, ProcessorSeconds() - start);
    EXPECT_EQ(streamed.streamed_immediate_response().headers_response().headers().headers_size(),
              headers + 1);
    EXPECT_EQ(immediate.immediate_response().headers().set_headers_size(), headers);
  }
  return least;
}

// A comparison of every header with every other takes 16 times as long for four times as many.
TEST(ResponsesTest, ManyHeadersTakeTimeInProportion) {
  constexpr int kManyHeaders = 16'000;
  EXPECT_LT(SecondsFor(kManyHeaders), 8 * SecondsFor(kManyHeaders / 4));
}

}  // namespace
}  // namespace idempotency::internal

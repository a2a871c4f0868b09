#include "bench/load_report.h"

#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wrappers.pb.h>

#include "absl/strings/str_format.h"

#include "core/utf8.h"

namespace idempotency::internal::bench {
namespace {

// With its quotes. Bytes that are not UTF-8 become '?'.
std::string JsonString(const std::string& text) {
  google::protobuf::StringValue value;
  value.set_value(ToUtf8(text));
  std::string json;
  // It cannot fail for well-formed text.
  if (!google::protobuf::util::MessageToJsonString(value, &json).ok()) json = R"("?")";
  return json;
}

}  // namespace

std::uint64_t LoadReport::Failed(const absl::Status& status) {
  const std::uint64_t failures = failures_.fetch_add(1, std::memory_order_relaxed) + 1;
  MutexLock lock(mutex_);
  if (first_failure_.ok()) first_failure_ = status;
  return failures;
}

double LoadReport::PerSecond() const {
  const double seconds = absl::ToDoubleSeconds(measured_time_);
  return seconds > 0 ? static_cast<double>(latencies_.count()) / seconds : 0;
}

std::string LoadReport::ToJson() const {
  const auto us = [this](double quantile) {
    return absl::ToDoubleMicroseconds(latencies_.Quantile(quantile));
  };
  std::string failure;
  {
    MutexLock lock(mutex_);
    if (!first_failure_.ok()) failure = first_failure_.ToString();
  }
  return absl::StrFormat(
      R"({"seconds":%.3f,"measured":%d,"per_second":%.1f,"ended":%d,"failures":%d,"refused":%d,"shed":%d,)"
      R"("mean_us":%.1f,"p50_us":%.1f,"p90_us":%.1f,"p99_us":%.1f,"p999_us":%.1f,"max_us":%.1f,)"
      R"("first_failure":%s})",
      absl::ToDoubleSeconds(measured_time_), latencies_.count(), PerSecond(), ended_.load(),
      failures_.load(), refused_.load(), shed_.load(),
      absl::ToDoubleMicroseconds(latencies_.mean()), us(0.5), us(0.9), us(0.99), us(0.999),
      absl::ToDoubleMicroseconds(latencies_.max()), JsonString(failure));
}

}  // namespace idempotency::internal::bench

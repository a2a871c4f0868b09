#ifndef IDEMPOTENCY_TESTS_SUPPORT_METRICS_PAGE_H_
#define IDEMPOTENCY_TESTS_SUPPORT_METRICS_PAGE_H_

#include <map>
#include <string>

namespace idempotency::internal::testing {

// The page that a daemon serves under /metrics, at one moment. A value type.
class MetricsPage {
 public:
  // Reads it over HTTP. Aborts the test process if there is none.
  static MetricsPage Fetch(const std::string& address);

  // The page unchanged.
  const std::string& text() const { return text_; }
  // The types of the families, by name: "counter", "gauge", "histogram".
  const std::map<std::string, std::string>& types() const { return types_; }
  // The samples by series, spelled as on the page: `name` or
  // `name{label="value"}`.
  const std::map<std::string, double>& samples() const { return samples_; }
  // One sample; 0 for a series that does not exist.
  double Value(const std::string& series) const;

 private:
  std::string text_;
  std::map<std::string, std::string> types_;
  std::map<std::string, double> samples_;
};

}  // namespace idempotency::internal::testing

#endif  // IDEMPOTENCY_TESTS_SUPPORT_METRICS_PAGE_H_

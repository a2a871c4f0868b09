#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_CONTROL_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_CONTROL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "tests/chaos/proxy/link.h"

namespace idempotency::internal::chaos {

// Parses the lines of the control socket, and applies them. See tests/chaos/README.md.
// Thread-compatible.
class Control {
 public:
  // `links` outlives it.
  explicit Control(const std::vector<std::unique_ptr<Link>>* links) : links_(*links) {}

  // The answer to one line, without its end: "ok", "error: ...", or the JSON of `stats`. The line
  // has been applied by then.
  std::string Answer(const std::string& line);

 private:
  using Words = absl::Span<const std::string>;

  std::string Stats() const;
  static absl::Status Apply(Link& link, const std::string& command, Words words);
  static absl::Status Delay(Link& link, Words words);
  static absl::Status Cut(Link& link, bool forward, Words words);

  const std::vector<std::unique_ptr<Link>>& links_;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_CONTROL_H_

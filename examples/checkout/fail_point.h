#ifndef IDEMPOTENCY_EXAMPLES_CHECKOUT_FAIL_POINT_H_
#define IDEMPOTENCY_EXAMPLES_CHECKOUT_FAIL_POINT_H_

#include <signal.h>

#include <string>
#include <string_view>
#include <utility>

namespace checkout {

// The point at which this process crashes, to test the recovery of its work. Thread-safe.
class FailPoint {
 public:
  // Nowhere.
  FailPoint() = default;
  explicit FailPoint(std::string name) : name_(std::move(name)) {}

  // As by kill -9, if this is the point.
  void Reach(std::string_view name) const {
    if (name == name_) raise(SIGKILL);
  }

 private:
  std::string name_;
};

}  // namespace checkout

#endif  // IDEMPOTENCY_EXAMPLES_CHECKOUT_FAIL_POINT_H_

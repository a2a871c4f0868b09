#ifndef IDEMPOTENCY_CORE_PASS_KEY_H_
#define IDEMPOTENCY_CORE_PASS_KEY_H_

namespace idempotency::internal {

// A parameter of a public constructor that only `T` can call: std::make_shared cannot call a
// private one.
template <typename T>
class PassKey {
  friend T;
  // Not defaulted: braces would make one without it.
  PassKey() {}  // NOLINT(modernize-use-equals-default)
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_PASS_KEY_H_

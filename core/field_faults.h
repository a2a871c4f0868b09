#ifndef IDEMPOTENCY_CORE_FIELD_FAULTS_H_
#define IDEMPOTENCY_CORE_FIELD_FAULTS_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

#include "grpc_idempotency/errors.h"

namespace idempotency::internal {

// Gathers the faults of a request, so that its caller can fix all of them at
// once. Costs nothing while there is no fault. Thread-compatible.
class FieldFaults {
 public:
  // More are counted, but not named: a request may hold any number.
  static constexpr std::size_t kMaxNamed = 16;
  // The limit of the message, which counts the faults that no longer fit, and leaves
  // them to the violations: gRPC accepts 8 KiB of trailing metadata in total, and the
  // details, which hold the message once more, are part of that.
  static constexpr std::size_t kMaxMessageBytes = 400;

  // A fault of REQUEST_INVALID.
  void Add(std::string_view field, std::string_view description);
  // A failure of the catalogue with its violations. OK is not a fault.
  void Add(const absl::Status& status);

  bool empty() const { return count_ == 0; }

  // OK, or INVALID_ARGUMENT with every fault in the order in which they were
  // found. Its reason is KEY_MISSING or KEY_INVALID if there is such a fault, and
  // REQUEST_INVALID otherwise.
  absl::Status status() const;

 private:
  void Name(FieldViolation violation);

  Reason reason_ = Reason::kRequestInvalid;
  ErrorDetails details_;
  std::string message_;
  std::size_t count_ = 0;
  std::size_t in_message_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_FIELD_FAULTS_H_

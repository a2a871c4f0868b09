#ifndef IDEMPOTENCY_EXAMPLES_README_BANK_H_
#define IDEMPOTENCY_EXAMPLES_README_BANK_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <string>

// An external service, with keys of its own.
class Bank {
 public:
  virtual ~Bank() = default;
  virtual grpc::Status Pay(const std::string& key, std::int64_t cents) = 0;
  // Once it has answered, a payment under this key that was not made never will be.
  virtual std::optional<bool> CancelUnlessPaid(const std::string& key) = 0;
};

#endif  // IDEMPOTENCY_EXAMPLES_README_BANK_H_

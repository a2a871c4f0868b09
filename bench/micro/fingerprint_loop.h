#ifndef IDEMPOTENCY_BENCH_MICRO_FINGERPRINT_LOOP_H_
#define IDEMPOTENCY_BENCH_MICRO_FINGERPRINT_LOOP_H_

#include <string_view>

#include "bench/charges.pb.h"
#include "bench/micro/inner_loop.h"

namespace idempotency::internal::bench {

// The guard's work for every request: canonical form and digest.
class FingerprintLoop final : public InnerLoop {
 public:
  FingerprintLoop();
  std::string_view name() const override { return "fingerprint"; }
  void Iterate() override;

 private:
  charges::v1::ChargeRequest request_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MICRO_FINGERPRINT_LOOP_H_

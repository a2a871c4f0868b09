#include "bench/micro/fingerprint_loop.h"

#include <string>

#include "grpc_idempotency/fingerprint_algorithm.h"
#include "grpc_idempotency/fingerprint_input.h"

namespace idempotency::internal::bench {

FingerprintLoop::FingerprintLoop() {
  request_.set_account("alice");
  request_.set_amount_cents(4200);
  request_.set_note(std::string(256, 'n'));
}

void FingerprintLoop::Iterate() {
  Use(FingerprintV1(FingerprintInput{"/charges.v1.Charges/Charge", request_}));
}

}  // namespace idempotency::internal::bench

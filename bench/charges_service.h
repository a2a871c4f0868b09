#ifndef IDEMPOTENCY_BENCH_CHARGES_SERVICE_H_
#define IDEMPOTENCY_BENCH_CHARGES_SERVICE_H_

#include <cstddef>
#include <string>

#include "bench/charges.grpc.pb.h"

namespace idempotency::internal::bench {

// A handler that costs next to nothing. Thread-safe.
class ChargesService final : public charges::v1::Charges::CallbackService {
 public:
  explicit ChargesService(std::size_t reply_bytes) : receipt_(reply_bytes, 'r') {}

  grpc::ServerUnaryReactor* Charge(grpc::CallbackServerContext* context,
                                   const charges::v1::ChargeRequest* /*request*/,
                                   charges::v1::ChargeReply* reply) override {
    reply->set_receipt(receipt_);
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

 private:
  const std::string receipt_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_CHARGES_SERVICE_H_

#ifndef IDEMPOTENCY_BENCH_MICRO_RECORD_ID_LOOP_H_
#define IDEMPOTENCY_BENCH_MICRO_RECORD_ID_LOOP_H_

#include <string_view>

#include "bench/micro/inner_loop.h"
#include "grpc_idempotency/record_key.h"

namespace idempotency::internal::bench {

// The id of a record whose key is a UUIDv7.
class RecordIdLoop final : public InnerLoop {
 public:
  std::string_view name() const override { return "record_id"; }
  void Iterate() override { Use(RecordIdFor(key_)); }

 private:
  const RecordKey key_ = {"bench", "tenant-42", "/charges.v1.Charges/Charge",
                          "018bcfe5-6800-7000-8000-0123456789ab"};
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MICRO_RECORD_ID_LOOP_H_

// The work of idempotencyd on the bytes of one operation, without gRPC and the store: it parses and
// checks the request, and builds and serialises the answer.
#ifndef IDEMPOTENCY_BENCH_MICRO_WIRE_LOOP_H_
#define IDEMPOTENCY_BENCH_MICRO_WIRE_LOOP_H_

#include <string>
#include <string_view>

#include "bench/micro/inner_loop.h"
#include "grpc_idempotency/uuid.h"
#include "server/store/verdict.h"

namespace idempotency::internal::bench {

// A Reserve that is granted.
class ReserveWireLoop final : public InnerLoop {
 public:
  ReserveWireLoop();
  std::string_view name() const override { return "reserve_wire"; }
  void Iterate() override;

 private:
  std::string request_;
  Verdict granted_;
};

// A Complete with a reply of 256 bytes.
class CompleteWireLoop final : public InnerLoop {
 public:
  CompleteWireLoop();
  std::string_view name() const override { return "complete_wire"; }
  void Iterate() override;

 private:
  std::string request_;
};

// The answer to a Reserve that finds such a reply.
class ReplayWireLoop final : public InnerLoop {
 public:
  ReplayWireLoop();
  std::string_view name() const override { return "replay_wire"; }
  void Iterate() override;

 private:
  Verdict replay_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MICRO_WIRE_LOOP_H_

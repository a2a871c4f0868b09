#ifndef IDEMPOTENCY_BENCH_MICRO_SESSION_FRAME_LOOP_H_
#define IDEMPOTENCY_BENCH_MICRO_SESSION_FRAME_LOOP_H_

#include <string_view>

#include "bench/micro/inner_loop.h"

#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::bench {

// A frame of 64 reservations and the frame of their grants, each as its sender
// writes it and its receiver reads it.
class SessionFrameLoop final : public InnerLoop {
 public:
  SessionFrameLoop();
  std::string_view name() const override { return "session_frames_of_64"; }
  void Iterate() override;

 private:
  v1::SessionRequest request_;
  v1::SessionResponse response_;
};

}  // namespace idempotency::bench

#endif  // IDEMPOTENCY_BENCH_MICRO_SESSION_FRAME_LOOP_H_

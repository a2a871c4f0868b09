#ifndef IDEMPOTENCY_BENCH_MICRO_SESSION_FRAME_LOOP_H_
#define IDEMPOTENCY_BENCH_MICRO_SESSION_FRAME_LOOP_H_

#include <string_view>
#include <vector>

#include "bench/micro/inner_loop.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal::bench {

// 64 reservations in a frame and their grants in another one, without the streams: operations made
// and framed by the client, read by the service; answers written by the service, read and delivered
// by the client.
class SessionFrameLoop final : public InnerLoop {
 public:
  SessionFrameLoop();
  std::string_view name() const override { return "session_frames_of_64"; }
  void Iterate() override;

 private:
  std::vector<v1::ReserveRequest> requests_;
  v1::SessionResponse response_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MICRO_SESSION_FRAME_LOOP_H_

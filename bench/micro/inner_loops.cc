#include "bench/micro/batch_loop.h"
#include "bench/micro/fingerprint_loop.h"
#include "bench/micro/inner_loop.h"
#include "bench/micro/record_id_loop.h"
#include "bench/micro/session_frame_loop.h"
#include "bench/micro/wire_loop.h"

namespace idempotency::internal::bench {

std::vector<std::unique_ptr<InnerLoop>> AllInnerLoops() {
  std::vector<std::unique_ptr<InnerLoop>> loops;
  loops.push_back(std::make_unique<FingerprintLoop>());
  loops.push_back(std::make_unique<RecordIdLoop>());
  loops.push_back(std::make_unique<BatchLoop>());
  loops.push_back(std::make_unique<ReserveWireLoop>());
  loops.push_back(std::make_unique<CompleteWireLoop>());
  loops.push_back(std::make_unique<ReplayWireLoop>());
  loops.push_back(std::make_unique<SessionFrameLoop>());
  return loops;
}

}  // namespace idempotency::internal::bench

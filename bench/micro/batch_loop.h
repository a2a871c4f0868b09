#ifndef IDEMPOTENCY_BENCH_MICRO_BATCH_LOOP_H_
#define IDEMPOTENCY_BENCH_MICRO_BATCH_LOOP_H_

#include <string_view>
#include <vector>

#include "bench/micro/inner_loop.h"
#include "grpc_idempotency/uuid.h"
#include "server/queue/fair_queue.h"

namespace idempotency::internal::bench {

// A batch of 64 operations on as many records: queued one by one, taken at once.
class BatchLoop final : public InnerLoop {
 public:
  BatchLoop();
  std::string_view name() const override { return "batch_of_64"; }
  void Iterate() override;

 private:
  // An object to move, of an operation's size.
  struct Item {
    std::vector<int> values;
    RecordId id;
  };

  std::vector<RecordId> ids_;
  FairQueue<Item> queue_;
  std::vector<Item> overdue_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MICRO_BATCH_LOOP_H_

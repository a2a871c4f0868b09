#include "bench/cycle_workload.h"

#include <memory>
#include <string>
#include <utility>

namespace idempotency::internal::bench {

struct CycleWorkload::Cycle {
  v1::RecordKey key;
  Done done;
};

void CycleWorkload::Start(std::uint64_t number, Done done) {
  const v1::ReserveRequest request = requests_.Reserve(number);
  auto cycle = std::make_shared<Cycle>(Cycle{request.record_key(), std::move(done)});
  connection_.Reserve(request, requests_.Deadline(), [this, cycle](auto answer) {
    auto token = RecordRequests::GrantedToken(std::move(answer));
    if (!token.ok()) return cycle->done(token.status());
    connection_.Complete(requests_.Complete(std::move(cycle->key), *std::move(token)),
                         requests_.Deadline(),
                         [cycle](const auto& completed) { cycle->done(completed.status()); });
  });
}

}  // namespace idempotency::internal::bench

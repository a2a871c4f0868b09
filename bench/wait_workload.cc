#include "bench/wait_workload.h"

#include <atomic>
#include <utility>

namespace idempotency::internal::bench {
namespace {

// Longer than any completion that is not counted as failed.
constexpr int kMaxWaitSeconds = 8;

}  // namespace

struct WaitWorkload::Pair {
  v1::ReserveRequest request;
  Done done;
  // The completion and the duplicate's answer; the last of the two ends the piece.
  std::atomic<int> outstanding{2};
  absl::Status completed;
  absl::Status replayed;

  void EndOne() {
    if (outstanding.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
    done(completed.ok() ? replayed : completed);
  }
};

void WaitWorkload::Start(std::uint64_t number, Done done) {
  auto pair = std::make_shared<Pair>();
  pair->request = requests_.Reserve(number);
  pair->done = std::move(done);
  connection_.Reserve(pair->request, requests_.Deadline(), [this, pair](auto answer) {
    const auto token = RecordRequests::GrantedToken(std::move(answer));
    if (!token.ok()) return pair->done(token.status());
    SendDuplicate(pair, *token);
  });
}

void WaitWorkload::SendDuplicate(std::shared_ptr<Pair> pair, const std::string& token) {
  v1::ReserveRequest duplicate = pair->request;
  duplicate.clear_request_token();
  duplicate.mutable_max_wait()->set_seconds(kMaxWaitSeconds);
  connection_.Reserve(duplicate, requests_.Deadline(), [this, pair](const auto& answer) {
    pair->replayed = requests_.CheckReplay(answer);
    pair->EndOne();
  });
  connection_.Complete(requests_.Complete(pair->request.record_key(), token), requests_.Deadline(),
                       [pair](const auto& answer) {
                         pair->completed = answer.status();
                         pair->EndOne();
                       });
}

}  // namespace idempotency::internal::bench

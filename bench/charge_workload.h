#ifndef IDEMPOTENCY_BENCH_CHARGE_WORKLOAD_H_
#define IDEMPOTENCY_BENCH_CHARGE_WORKLOAD_H_

#include <grpcpp/channel.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/time/time.h"

#include "bench/charges.grpc.pb.h"
#include "bench/numbered_keys.h"
#include "bench/workload.h"

namespace idempotency::internal::bench {

// Calls of the Charges service, guarded or not.
class ChargeWorkload final : public Workload {
 public:
  struct Options {
    std::size_t request_bytes = 256;
    // The time limit of a call.
    absl::Duration timeout = absl::Seconds(10);
    // Without keys: the service is not guarded.
    std::optional<NumberedKeys::Options> keys;
    // Every key is one of the first `replayed_keys`, and was used before: every answer is a replay;
    // otherwise none is. One call in kLookedAt is checked.
    std::optional<std::uint64_t> replayed_keys;
  };
  static constexpr std::uint64_t kLookedAt = 256;

  ChargeWorkload(const std::shared_ptr<grpc::Channel>& channel, const Options& options);

  void Start(std::uint64_t number, Done done) override;

 private:
  struct Call;

  absl::Status CheckAnswer(std::uint64_t number, const Call& call) const;

  const std::unique_ptr<charges::v1::Charges::Stub> stub_;
  const Options options_;
  std::optional<NumberedKeys> keys_;
  charges::v1::ChargeRequest request_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_CHARGE_WORKLOAD_H_

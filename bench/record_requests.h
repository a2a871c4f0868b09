#ifndef IDEMPOTENCY_BENCH_RECORD_REQUESTS_H_
#define IDEMPOTENCY_BENCH_RECORD_REQUESTS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "bench/numbered_keys.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal::bench {

// Makes the requests of workloads, as a guard makes them: a full key, a fingerprint of 32 bytes, a
// request token, a reply with a body of a given size. The fingerprint is made ahead: it is the
// guard's work, and is measured there.
//
// Thread-safe.
class RecordRequests {
 public:
  struct Options {
    std::string name_space = "bench";
    std::string scope = "tenant-42";
    std::string operation = "/charges.v1.Charges/Charge";
    std::size_t reply_bytes = 256;
    // The time limit of an answer.
    absl::Duration timeout = absl::Seconds(10);
    NumberedKeys::Options keys;
  };

  explicit RecordRequests(const Options& options);

  v1::ReserveRequest Reserve(std::uint64_t number) const;
  v1::CompleteRequest Complete(v1::RecordKey key, std::string reservation_token) const;
  std::chrono::steady_clock::time_point Deadline() const;

  // The reservation's token; INTERNAL if the answer is another verdict.
  static absl::StatusOr<std::string> GrantedToken(absl::StatusOr<v1::ReserveResponse> answer);
  // OK if the answer is the reply that Complete() gave.
  absl::Status CheckReplay(const absl::StatusOr<v1::ReserveResponse>& answer) const;

 private:
  const Options options_;
  const NumberedKeys keys_;
  const v1::ReserveRequest reserve_;
  const v1::Reply reply_;
};

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_RECORD_REQUESTS_H_

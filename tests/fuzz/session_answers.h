#ifndef IDEMPOTENCY_TESTS_FUZZ_SESSION_ANSWERS_H_
#define IDEMPOTENCY_TESTS_FUZZ_SESSION_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "grpc_idempotency/uuid.h"
#include "idempotency/v1/idempotency_service.pb.h"

namespace idempotency::internal::fuzz {

// The operations sent on one session, and a check that the answers belong to them.
// Thread-compatible.
class SessionAnswers {
 public:
  // A frame was sent; empty if it could not be parsed.
  void Sent(const v1::SessionRequest& frame);
  // A frame arrived.
  void Came(const v1::SessionResponse& frame);
  // No further frame will arrive. `refused`: the last frame was, as a whole.
  void End(bool refused) const;

 private:
  using Kind = v1::SessionOperation::OperationCase;

  void TakeAnswer(const v1::SessionAnswer& answer);
  void TakeVerdict(const v1::ReserveResponse& response);

  bool established_ = false;
  // Unanswered operations.
  std::map<std::uint64_t, std::vector<Kind>> unanswered_;
  // The number of operations in the last frame that was sent.
  std::size_t last_operations_ = 0;
  // By record id, as verdicts contain it.
  std::map<std::string, std::size_t> releases_;
  std::map<std::string, std::set<std::string>> completions_;
  std::map<std::string, std::set<std::string>> grants_;
};

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_SESSION_ANSWERS_H_

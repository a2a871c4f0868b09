#ifndef IDEMPOTENCY_SERVER_RPC_HELD_ANSWERS_H_
#define IDEMPOTENCY_SERVER_RPC_HELD_ANSWERS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "server/rpc/answers_by_host.h"
#include "server/rpc/gathered_answers.h"

namespace idempotency::internal {

// The memory budget of a session's answers until gRPC has written them. Not thread-safe.
class HeldAnswers {
 public:
  // `host` has those without a reply too, if there is one.
  explicit HeldAnswers(std::shared_ptr<HostAnswers> host) : host_(std::move(host)) {}
  ~HeldAnswers() { Keep(0); }
  HeldAnswers(const HeldAnswers&) = delete;
  HeldAnswers& operator=(const HeldAnswers&) = delete;

  // `bytes` of answers come behind the others.
  void Add(std::size_t bytes, GatheredAnswers::Holds holds);
  // Releases the answers that are written; `unwritten` bytes of the frames are not.
  void ReleaseWritten(std::size_t unwritten);
  // Releases all but the frame of `writing` bytes that is being written, since nothing else is
  // sent.
  void Keep(std::size_t writing);

  // The bytes of those without a reply.
  std::size_t others() const { return others_; }

 private:
  struct Held {
    // The size of all answers up to the last one of these.
    std::uint64_t end;
    GatheredAnswers::Holds holds;
  };

  // To at most `bytes`.
  void ShrinkOthers(MemoryBudget::Hold& hold, std::size_t bytes);

  const std::shared_ptr<HostAnswers> host_;
  std::deque<Held> held_;
  // The size of all answers so far.
  std::uint64_t added_bytes_ = 0;
  std::size_t others_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_HELD_ANSWERS_H_

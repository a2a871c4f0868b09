#ifndef IDEMPOTENCY_SERVER_RPC_OUTGOING_ANSWERS_H_
#define IDEMPOTENCY_SERVER_RPC_OUTGOING_ANSWERS_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "grpc_idempotency/deadline.h"
#include "idempotency/v1/idempotency_service.pb.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/answer_frames.h"
#include "server/rpc/answers_by_host.h"
#include "server/rpc/gathered_answers.h"

namespace idempotency::internal {

// The answers of a session until gRPC has written them: their frames, one of which may be under
// way, and their part of the memory budget. Not thread-safe.
class OutgoingAnswers {
 public:
  // A frame that gRPC writes.
  struct Write {
    SteadyTime since;
    std::size_t bytes;
  };

  // A frame has at most `max_frame_bytes`, unless one answer alone is larger. `host` has the
  // answers without a reply too, if there is one.
  OutgoingAnswers(std::size_t max_frame_bytes, std::shared_ptr<HostAnswers> host)
      : host_(std::move(host)), unsent_(max_frame_bytes) {}
  ~OutgoingAnswers() { Keep(0); }
  OutgoingAnswers(const OutgoingAnswers&) = delete;
  OutgoingAnswers& operator=(const OutgoingAnswers&) = delete;

  // Both come behind the others.
  void Add(const v1::SessionResponse& fields);
  void Add(AnswerFrames&& answers, GatheredAnswers::Holds holds);

  // Begins to write the next frame, which is unchanged until WriteEnds(). Returns null if there is
  // no frame, or if gRPC still writes the one before.
  const grpc::ByteBuffer* BeginWrite(SteadyTime now);
  void WriteEnds();
  // Nothing more is sent: only the frame that is under way keeps its memory.
  void DropUnsent();

  const std::optional<Write>& write() const { return write_; }
  bool has_unsent() const { return !unsent_.empty(); }
  // The size of all that gRPC has not written.
  std::size_t bytes() const { return unsent_.bytes() + (write_.has_value() ? write_->bytes : 0); }
  // The memory of answers without a reply.
  std::size_t others() const { return others_; }

 private:
  struct Held {
    // The size of all answers up to the last one of these.
    std::uint64_t end;
    GatheredAnswers::Holds holds;
  };

  void ReleaseWritten();
  // Releases all but the first `bytes`.
  void Keep(std::size_t bytes);
  // To at most `bytes`.
  void ShrinkOthers(MemoryBudget::Hold& hold, std::size_t bytes);

  const std::shared_ptr<HostAnswers> host_;
  AnswerFrames unsent_;
  std::optional<Write> write_;
  // Owned by gRPC during a write.
  grpc::ByteBuffer frame_;
  std::deque<Held> held_;
  // The size of all answers so far.
  std::uint64_t added_bytes_ = 0;
  std::size_t others_ = 0;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_OUTGOING_ANSWERS_H_

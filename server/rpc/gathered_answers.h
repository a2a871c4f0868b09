#ifndef IDEMPOTENCY_SERVER_RPC_GATHERED_ANSWERS_H_
#define IDEMPOTENCY_SERVER_RPC_GATHERED_ANSWERS_H_

#include <google/protobuf/arena.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "idempotency/v1/idempotency_service.pb.h"
#include "server/queue/answer_batch_scope.h"
#include "server/queue/memory_budget.h"
#include "server/rpc/answer_frames.h"

namespace idempotency::internal {

// The answers of one AnswerBatchScope to one stream, encoded as they are made. Belongs to the
// thread of its scope.
class GatheredAnswers final : public AnswerBatchScope::Flushable {
 public:
  // The stream that sends them. Its methods are called on any thread.
  class Stream {
   public:
    // The maximum of the bytes of a frame, unless one answer alone is larger.
    virtual std::size_t max_answer_frame_bytes() const = 0;
    // Whether the caller broke a rule: then the operations that this cancels are not answered here.
    virtual bool failed() const = 0;
    // Whether an answer with a stored reply may wait for its write, with `bytes` of answers in all
    // beside those of the stream.
    virtual bool HasRoomFor(std::size_t bytes) const = 0;
    virtual MemoryBudget& budget() const = 0;
    // Sends the answers. The stream may be destroyed afterwards.
    virtual void Deliver(GatheredAnswers& gathered) = 0;

   protected:
    ~Stream() = default;
  };

  // Returns the answers to `stream` in the current scope, which must exist.
  static GatheredAnswers& In(Stream& stream);

  explicit GatheredAnswers(Stream& stream)
      : stream_(stream), frames_(stream.max_answer_frame_bytes()), arena_(ArenaOptions()) {}

  // The answer that is being made; Add() begins the next one.
  v1::SessionAnswer& answer();

  // Adds the answer, or in its place an error. `hold` is the answer's existing part of the memory
  // budget.
  void Add(std::uint64_t id, const absl::Status& status, MemoryBudget::Hold hold = {});

  void Flush() override { stream_.Deliver(*this); }

  AnswerFrames& frames() { return frames_; }
  // The frames' part of the memory budget.
  struct Holds {
    std::vector<MemoryBudget::Hold> replies;
    MemoryBudget::Hold others;
  };
  Holds TakeHolds();
  // The operations that are over, also those without an answer here.
  const std::vector<std::uint64_t>& ids() const { return ids_; }

 private:
  void Append(std::uint64_t id, const absl::Status& status, MemoryBudget::Hold hold);
  // Only the answer's bytes in the frame are left.
  void Hold(MemoryBudget::Hold hold, std::size_t bytes);
  bool Fits(std::size_t bytes) const;
  google::protobuf::ArenaOptions ArenaOptions();

  Stream& stream_;
  AnswerFrames frames_;
  std::vector<MemoryBudget::Hold> holds_;
  // The size of the answers that hold no memory budget yet.
  std::size_t others_bytes_ = 0;
  std::vector<std::uint64_t> ids_;
  // Enough for an answer without its texts.
  alignas(std::max_align_t) std::array<char, 2048> block_;
  google::protobuf::Arena arena_;
  v1::SessionAnswer* answer_ = nullptr;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_RPC_GATHERED_ANSWERS_H_

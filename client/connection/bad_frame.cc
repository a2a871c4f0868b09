#include "client/connection/bad_frame.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/strings/numbers.h"

#include "core/answer_kind.h"
#include "grpc_idempotency/errors.h"
#include "grpc_idempotency/grpc_status.h"

namespace idempotency::internal {
namespace {

absl::Status OverSendLimit() {
  return InvalidField("session.operation", "is over the send limit of the channel to idempotencyd");
}

// The frame that `error` concerns; if it names none, the first unanswered one: a
// server answers the frames before a bad frame and reads none after it.
std::uint64_t BadFrame(const absl::Status& error,
                       const std::vector<OutstandingOperation*>& unanswered) {
  std::uint64_t frame = 0;
  const ErrorDetails details = DetailsOf(error);
  const auto named = details.metadata.find(std::string(kFrameDetail));
  if (named != details.metadata.end() && absl::SimpleAtoi(named->second, &frame)) return frame;
  frame = std::numeric_limits<std::uint64_t>::max();
  for (const auto* operation : unanswered) frame = std::min(frame, operation->frame);
  return frame;
}

// Every frame sent was within the limit that this one exceeds, and no operation
// of this one was answered.
std::uint64_t HeaviestFrame(const std::vector<OutstandingOperation*>& unanswered) {
  absl::btree_map<std::uint64_t, std::size_t> bytes;
  for (const auto* operation : unanswered) bytes[operation->frame] += operation->body.size();
  const auto heaviest = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return heaviest == bytes.end() ? 0 : heaviest->first;
}

void Mark(const std::vector<OutstandingOperation*>& unanswered, std::uint64_t bad_frame) {
  for (OutstandingOperation* operation : unanswered) {
    if (operation->frame != bad_frame) {
      // Not one of those that it may break: for any number of faulty operations,
      // it is sent until it is answered.
      --operation->times_sent;
      continue;
    }
    operation->refused = operation->alone;
    operation->alone = true;
  }
}

}  // namespace

absl::Status IsolateBadFrame(const grpc::Status& end,
                             const std::vector<OutstandingOperation*>& unanswered) {
  if (IsOverSendLimit(end)) {
    Mark(unanswered, HeaviestFrame(unanswered));
    return OverSendLimit();
  }
  absl::Status error = FromGrpcStatus(end);
  if (ReasonOf(error) == Reason::kRequestInvalid) Mark(unanswered, BadFrame(error, unanswered));
  return error;
}

grpc::Status EndForOthers(const grpc::Status& end) {
  if (ReasonOf(FromGrpcStatus(end)) != Reason::kRequestInvalid) return end;
  return grpc::Status(grpc::StatusCode::UNAVAILABLE,
                      "the session ended because of an operation of another caller");
}

}  // namespace idempotency::internal

#include "server/rpc/answer_frames.h"

#include <google/protobuf/io/coded_stream.h>

#include <cstdint>
#include <cstring>
#include <utility>

namespace idempotency::internal {
namespace {

using google::protobuf::io::CodedOutputStream;

// Number and wire type (length-delimited) of SessionResponse.answers.
constexpr std::uint32_t kAnswersTag = (v1::SessionResponse::kAnswersFieldNumber << 3) | 2;
static_assert(kAnswersTag < 0x80, "one byte");

}  // namespace

void AnswerFrames::Append(const v1::SessionResponse& fields) {
  const std::string bytes = fields.SerializeAsString();
  std::memcpy(Grow(bytes.size()), bytes.data(), bytes.size());
}

void AnswerFrames::Append(const v1::SessionAnswer& answer) {
  const std::size_t size = answer.ByteSizeLong();
  const auto length = static_cast<std::uint32_t>(size);
  auto* at =
      reinterpret_cast<std::uint8_t*>(Grow(1 + CodedOutputStream::VarintSize32(length) + size));
  *at++ = static_cast<std::uint8_t>(kAnswersTag);
  at = CodedOutputStream::WriteVarint32ToArray(length, at);
  answer.SerializeWithCachedSizesToArray(at);
}

void AnswerFrames::Append(AnswerFrames&& behind) {
  for (std::string& frame : behind.frames_) {
    if (!frames_.empty() && frames_.back().size() + frame.size() <= max_frame_bytes_) {
      frames_.back().append(frame);
    } else {
      frames_.push_back(std::move(frame));
    }
  }
  bytes_ += std::exchange(behind.bytes_, 0);
  behind.frames_.clear();
}

void AnswerFrames::Clear() {
  frames_.clear();
  bytes_ = 0;
}

std::string AnswerFrames::Pop() {
  std::string frame = std::move(frames_.front());
  frames_.pop_front();
  bytes_ -= frame.size();
  return frame;
}

char* AnswerFrames::Grow(std::size_t bytes) {
  if (frames_.empty() || frames_.back().size() + bytes > max_frame_bytes_) frames_.emplace_back();
  std::string& frame = frames_.back();
  const std::size_t before = frame.size();
  frame.resize(before + bytes);
  bytes_ += bytes;
  return frame.data() + before;
}

}  // namespace idempotency::internal

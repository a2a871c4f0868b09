#ifndef IDEMPOTENCY_TESTS_CHAOS_PROXY_BYTE_TRIGGER_H_
#define IDEMPOTENCY_TESTS_CHAOS_PROXY_BYTE_TRIGGER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace idempotency::internal::chaos {

// Finds a place in a stream: after a number of bytes, or after a text, also if the text arrives in
// pieces. Thread-compatible.
class ByteTrigger {
 public:
  static ByteTrigger AfterBytes(std::size_t count);
  // `text` is not empty.
  static ByteTrigger AfterText(std::string text);

  // The next piece of the stream. Returns the number of its bytes before the place, once that is
  // found; do not call it again then.
  std::optional<std::size_t> Feed(std::string_view piece);

 private:
  ByteTrigger(std::size_t left, std::string text) : left_(left), text_(std::move(text)) {}

  std::size_t left_;
  std::string text_;
  // The end of the received bytes, too short for the text.
  std::string tail_;
};

}  // namespace idempotency::internal::chaos

#endif  // IDEMPOTENCY_TESTS_CHAOS_PROXY_BYTE_TRIGGER_H_

#ifndef IDEMPOTENCY_TESTS_FUZZ_INPUT_H_
#define IDEMPOTENCY_TESTS_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idempotency::internal::fuzz {

// Takes an input apart, from its front. Any bytes are an input: behind its end
// numbers read as zero and texts as empty. The views live as long as the bytes.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  std::uint8_t Byte();
  // Eight bytes, little-endian.
  std::int64_t Integer();
  std::string_view Bytes(std::size_t count);
  // As many bytes as two bytes before them say, little-endian.
  std::string_view Block();
  // Up to the next line feed, which is taken too.
  std::string_view Line();
  std::string_view Rest();

 private:
  std::string_view rest_;
};

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_INPUT_H_

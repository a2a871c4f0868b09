#ifndef IDEMPOTENCY_TESTS_FUZZ_INPUT_H_
#define IDEMPOTENCY_TESTS_FUZZ_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace idempotency::internal::fuzz {

// Splits an input, from its front. Any bytes are an input: after its end numbers are zero and texts
// are empty. The views are valid as long as the bytes.
class Input {
 public:
  explicit Input(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  std::uint8_t Byte();
  // Eight bytes, little-endian.
  std::int64_t Integer();
  std::string_view Bytes(std::size_t count);
  // As many bytes as the two bytes before them give, little-endian.
  std::string_view Block();
  // Up to the next line feed, which is consumed too.
  std::string_view Line();
  std::string_view Rest();

 private:
  std::string_view rest_;
};

}  // namespace idempotency::internal::fuzz

#endif  // IDEMPOTENCY_TESTS_FUZZ_INPUT_H_

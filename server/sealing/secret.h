#ifndef IDEMPOTENCY_SERVER_SEALING_SECRET_H_
#define IDEMPOTENCY_SERVER_SEALING_SECRET_H_

#include <openssl/crypto.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace idempotency::internal {

// The bytes of a key of AES-256 or HMAC-SHA256, wiped at the end. Neither copied nor printed.
class Secret {
 public:
  static constexpr std::size_t kBytes = 32;

  Secret() = default;
  ~Secret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }
  Secret(const Secret&) = delete;
  Secret& operator=(const Secret&) = delete;

  std::uint8_t* data() { return bytes_.data(); }
  const std::uint8_t* data() const { return bytes_.data(); }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
  }

 private:
  std::array<std::uint8_t, kBytes> bytes_{};
};

// Wipes a text at the end of a scope: the parts of a key ring's file. The text may not grow in
// between, since that would leave a copy behind.
class WipedAtEnd {
 public:
  explicit WipedAtEnd(std::string& text) : text_(text) {}
  ~WipedAtEnd() { OPENSSL_cleanse(text_.data(), text_.size()); }
  WipedAtEnd(const WipedAtEnd&) = delete;
  WipedAtEnd& operator=(const WipedAtEnd&) = delete;

 private:
  std::string& text_;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SECRET_H_

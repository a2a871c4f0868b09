// The two operations of a guarded call, in memory and between minimal_server and minimal_daemon.
#ifndef IDEMPOTENCY_BENCH_MINIMAL_OPERATION_H_
#define IDEMPOTENCY_BENCH_MINIMAL_OPERATION_H_

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/types/span.h"

#include "core/sha256.h"
#include "grpc_idempotency/uuid.h"

namespace idempotency::internal::bench {

inline constexpr char kSessionMethod[] = "/minimal.v1.Daemon/Session";

// A program that compares costs ends at the first error.
[[noreturn]] inline void Die(std::string_view message) {
  std::cerr << "minimal: " << message << std::endl;
  std::_Exit(1);
}

// A reservation, or a completion of what was reserved.
class Operation {
 public:
  enum class Kind : std::uint8_t { kReserve, kComplete };
  enum class Verdict : std::uint8_t { kGranted, kReplay, kRefused, kCompleted };

  virtual ~Operation() = default;
  // `verdict` is set, and for a replay `expires_at` and `reply`. Must not block.
  virtual void Done() = 0;

  Kind kind = Kind::kReserve;
  Verdict verdict = Verdict::kRefused;
  RecordId id;
  std::int64_t token = 0;
  // In seconds of Unix time.
  std::int64_t expires_at = 0;
  // The fingerprint of a reservation.
  Sha256Digest fingerprint{};
  // The reply of a completion; then of a replay.
  std::string reply;
};

// Performs operations: the store, or the session with a daemon.
class Operations {
 public:
  virtual ~Operations() = default;
  // Thread-safe. Each stays valid until its Done(), which any thread calls.
  virtual void Submit(absl::Span<Operation* const> operations) = 0;
};

// Fields of a frame. Both programs are on one machine, so numbers are in its byte order.
class FrameWriter {
 public:
  bool empty() const { return bytes_.empty(); }
  template <typename T>
  void Number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Number(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  // What was written, and begins anew.
  grpc::ByteBuffer Take();

 private:
  std::string bytes_;
};

class FrameReader {
 public:
  explicit FrameReader(const grpc::ByteBuffer& frame);
  bool empty() const { return rest_.empty(); }
  std::size_t size() const { return rest_.size(); }
  template <typename T>
  T Number() {
    T value;
    Bytes(sizeof(value)).copy(reinterpret_cast<char*>(&value), sizeof(value));
    return value;
  }
  std::string_view Text() { return Bytes(Number<std::uint32_t>()); }

 private:
  std::string_view Bytes(std::size_t size) {
    if (rest_.size() < size) Die("a frame is too short");
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }

  grpc::Slice slice_;
  std::string_view rest_;
};

// `cookie` comes back with the answer.
void WriteOperation(std::uint64_t cookie, const Operation& operation, FrameWriter& frame);
// Returns the cookie.
std::uint64_t ReadOperation(FrameReader& frame, Operation& operation);
void WriteAnswer(std::uint64_t cookie, const Operation& operation, FrameWriter& frame);
// Follows the cookie.
void ReadAnswer(FrameReader& frame, Operation& operation);

// The message's bytes. `slice` holds them.
std::string_view BytesOf(const grpc::ByteBuffer& message, grpc::Slice& slice);
grpc::ByteBuffer BufferOf(const std::string& bytes);

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MINIMAL_OPERATION_H_

#include "tests/chaos/workload/drawn_calls.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "core/sha256.h"
#include "grpc_idempotency/uuid.h"
#include "tests/chaos/workload/history_line.h"

namespace idempotency::internal::testing {
namespace {

constexpr std::int64_t kWindowNs = 100'000'000;
constexpr std::uint64_t kKeysPerWindow = 16;
// The largest age of a key that is called again.
constexpr std::uint64_t kWindowsBack = 80;
// Older than any record of the run could be.
constexpr absl::Duration kLongAgo = absl::Hours(24 * 400);

bool Chance(std::mt19937_64& random, unsigned percent) { return random() % 100 < percent; }

}  // namespace

DrawnCall DrawnCalls::OfNumber(std::uint64_t number) const {
  const Sha256Digest digest = Sha256(absl::StrCat(seed_, "/", number));
  DrawnCall call;
  call.key.name_space = "app";
  const unsigned method = digest[0] % 10;
  call.key.operation = method < 5 ? kActMethod : method < 8 ? kTwinMethod : kLookMethod;
  if (digest[1] % 2 == 0) {
    call.key.key = absl::StrCat("key-", seed_, "-", number);
  } else {
    Uuid::Rest rest;
    std::copy_n(digest.begin() + 2, rest.size(), rest.begin());
    call.key.key =
        Uuid::TimeOrdered(epoch_ + absl::Nanoseconds(number / kKeysPerWindow * kWindowNs), rest)
            .ToString();
  }
  return call;
}

DrawnCall DrawnCalls::Draw(std::mt19937_64& random) const {
  const std::uint64_t now = (HistoryLine::Now() - epoch_ns_) / kWindowNs;
  const std::uint64_t back = Chance(random, 50) ? 0 : 1 + random() % kWindowsBack;
  DrawnCall call =
      OfNumber((now - std::min(now, back)) * kKeysPerWindow + random() % kKeysPerWindow);
  call.key.scope = Chance(random, 85) ? "alice" : "bob";
  call.request = Chance(random, 94) ? "a" : "b";
  if (Chance(random, 2)) {
    call.key.key.clear();
  } else if (Chance(random, 2)) {
    Uuid::Rest rest;
    for (auto& byte : rest) byte = static_cast<std::uint8_t>(random());
    call.key.key = Uuid::TimeOrdered(epoch_ - kLongAgo, rest).ToString();
  }
  call.sent_key = call.key.key;
  if (call.sent_key.size() == 36 && Chance(random, 20)) absl::AsciiStrToUpper(&call.sent_key);
  return call;
}

}  // namespace idempotency::internal::testing

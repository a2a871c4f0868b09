#include "tests/chaos/workload/handler_behaviour.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

#include "core/length_prefix.h"
#include "core/sha256.h"

namespace idempotency::internal::testing {
namespace {

// From this attempt on every one succeeds, so that each key settles: after a failure of the one
// before, once its pause of 4 s is over.
constexpr std::uint32_t kCalmAttempt = 3;

}  // namespace

HandlerBehaviour HandlerBehaviour::Draw(std::uint64_t seed, const RecordKey& key,
                                        std::uint32_t attempt, std::chrono::milliseconds lapse) {
  HandlerBehaviour drawn;
  if (attempt >= kCalmAttempt) return drawn;
  std::string parts;
  AppendPart(absl::StrCat(seed, "/", attempt), parts);
  AppendPart(key.scope, parts);
  AppendPart(key.operation, parts);
  AppendPart(key.key, parts);
  const Sha256Digest digest = Sha256(parts);
  std::uint32_t numbers[3];
  std::memcpy(numbers, digest.data(), sizeof(numbers));

  const std::uint32_t ending = numbers[0] % 1000;
  if (ending < 70) {
    drawn.ending = Ending::kRefuse;
  } else if (ending < 105) {
    drawn.ending = Ending::kFailBefore;
  } else if (ending < 130) {
    drawn.ending = Ending::kFailAfter;
  } else if (ending < 155) {
    drawn.ending = Ending::kNothingHappened;
  }
  const std::uint32_t work = numbers[1] % 1000;
  if (work < 12 && attempt == 1) {
    drawn.work = lapse + std::chrono::milliseconds(200 + numbers[2] % 500);
  } else if (work < 200) {
    drawn.work = std::chrono::milliseconds(10 + numbers[2] % 150);
  }
  drawn.looks = numbers[2] % 2 == 0;
  return drawn;
}

}  // namespace idempotency::internal::testing

#include "server/store/redis/scripts.h"

#include <openssl/evp.h>

#include <array>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "core/absl_view.h"
#include "core/fatal.h"
#include "grpc_idempotency/limits.h"
#include "server/store/limits.h"
#include "server/store/state_numbers.h"

namespace idempotency::internal {
namespace {

// Redis names scripts by it; nothing relies on its strength.
std::string Sha1(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1) {
    Fatal(
        "OpenSSL cannot compute SHA-1, the name of a script in Redis: check its configuration "
        "(OPENSSL_CONF)");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

RedisScript Make(const char* body) {
  RedisScript script;
  script.text = absl::StrCat(
      "local MARGIN = ", absl::ToInt64Microseconds(limits::kClockStepMargin),
      "\nlocal MAX_KEY_AHEAD = ", absl::ToInt64Microseconds(limits::kMaxKeyAhead),
      "\nlocal REQUIRE_RECOVERY = ", static_cast<int>(ToProto(LeaseExpiry::kRequireRecovery)), "\n",
      redis_script_text::k_record, body);
  script.name = Sha1(script.text);
  return script;
}

}  // namespace

#define IDEMPOTENCY_REDIS_SCRIPT(Name, body)                                          \
  const RedisScript& Name() {                                                         \
    static const auto* const script = new RedisScript(Make(redis_script_text::body)); \
    return *script;                                                                   \
  }
IDEMPOTENCY_REDIS_SCRIPT(ReserveScript, k_reserve)
IDEMPOTENCY_REDIS_SCRIPT(CompleteScript, k_complete)
IDEMPOTENCY_REDIS_SCRIPT(ReleaseScript, k_release)
IDEMPOTENCY_REDIS_SCRIPT(ExtendScript, k_extend)
IDEMPOTENCY_REDIS_SCRIPT(ReadScript, k_read)
IDEMPOTENCY_REDIS_SCRIPT(ChangeScript, k_change)
IDEMPOTENCY_REDIS_SCRIPT(SweepLockScript, k_sweep_lock)
IDEMPOTENCY_REDIS_SCRIPT(AnywayScript, k_anyway)
#undef IDEMPOTENCY_REDIS_SCRIPT

absl::Span<const RedisScript* const> RedisScripts() {
  static const RedisScript* const kAll[] = {&ReserveScript(),   &CompleteScript(), &ReleaseScript(),
                                            &ExtendScript(),    &ReadScript(),     &ChangeScript(),
                                            &SweepLockScript(), &AnywayScript()};
  return kAll;
}

}  // namespace idempotency::internal

#include "interceptors/server/wire/record_metadata.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal {
namespace {

// RFC 3339, in whole seconds: rounded down, so that it never promises too long. Kept for the next
// call, whose record usually expires in the same second: formatting takes longer than the rest of
// the metadata.
std::string ExpiryText(absl::Time expires_at) {
  struct Last {
    std::int64_t second = std::numeric_limits<std::int64_t>::min();
    std::array<char, sizeof("2026-11-23T10:00:00Z") - 1> text{};
  };
  thread_local Last last;
  const std::int64_t second = absl::ToUnixSeconds(expires_at);
  if (second != last.second) {
    std::string text =
        absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromUnixSeconds(second), absl::UTCTimeZone());
    if (text.size() != last.text.size()) return text;
    text.copy(last.text.data(), text.size());
    last.second = second;
  }
  return std::string(last.text.data(), last.text.size());
}

// gRPC aborts the process on other values.
bool IsVisibleAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
}

}  // namespace

MetadataEntries RecordMetadata(std::string_view record_id, absl::Time expires_at, bool replayed) {
  MetadataEntries entries;
  entries.reserve(3);
  if (!record_id.empty() && IsVisibleAscii(record_id)) {
    entries.emplace_back(kRecordMetadata, record_id);
  }
  if (expires_at > absl::UnixEpoch() && expires_at != absl::InfiniteFuture()) {
    entries.emplace_back(kExpiresMetadata, ExpiryText(expires_at));
  }
  if (replayed) entries.emplace_back(kReplayedMetadata, "true");
  return entries;
}

void AddTrailers(MetadataEntries entries, v1::Reply& reply) {
  for (auto& [key, value] : entries) {
    v1::MetadataEntry& entry = *reply.add_trailing_metadata();
    entry.set_key(std::move(key));
    entry.set_value(std::move(value));
  }
}

}  // namespace idempotency::internal

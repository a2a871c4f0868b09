#include "interceptors/server/wire/record_metadata.h"

#include "grpc_idempotency/idempotency_key.h"

namespace idempotency::internal {

MetadataEntries RecordMetadata(std::string_view record_id, absl::Time expires_at, bool replayed) {
  MetadataEntries entries;
  entries.reserve(3);
  if (!record_id.empty()) entries.emplace_back(kRecordMetadata, record_id);
  if (expires_at > absl::UnixEpoch() && expires_at != absl::InfiniteFuture()) {
    // RFC 3339, in whole seconds: rounded down, so that it never promises too long.
    entries.emplace_back(kExpiresMetadata,
                         absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                                          absl::FromUnixSeconds(absl::ToUnixSeconds(expires_at)),
                                          absl::UTCTimeZone()));
  }
  if (replayed) entries.emplace_back(kReplayedMetadata, "true");
  return entries;
}

MetadataEntries TraceMetadata(std::string_view first_traceparent) {
  if (first_traceparent.empty()) return {};
  return {{std::string(kTraceMetadata), std::string(first_traceparent)}};
}

bool IsRecordMetadata(std::string_view key) {
  return key == kRecordMetadata || key == kExpiresMetadata || key == kReplayedMetadata ||
         key == kTraceMetadata || key == kContentMetadata || key == kParentMetadata;
}

}  // namespace idempotency::internal

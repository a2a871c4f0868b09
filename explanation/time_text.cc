#include "explanation/time_text.h"

#include "absl/strings/str_cat.h"

#include "core/wire_time.h"

namespace idempotency::internal {

std::string SpanText(absl::Duration span) {
  const absl::Duration positive = absl::AbsDuration(span);
  if (positive >= absl::Hours(48)) return absl::StrCat(positive / absl::Hours(24), "d");
  if (positive >= absl::Hours(2)) return absl::StrCat(positive / absl::Hours(1), "h");
  if (positive >= absl::Minutes(2)) return absl::StrCat(positive / absl::Minutes(1), "m");
  return absl::StrCat(positive / absl::Seconds(1), "s");
}

std::string TimeText(const google::protobuf::Timestamp& time, absl::Time now) {
  const absl::Time at = FromWire(time);
  const std::string absolute = absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", at, absl::UTCTimeZone());
  const std::string span = SpanText(now - at);
  return at > now ? absl::StrCat(absolute, " (in ", span, ")")
                  : absl::StrCat(absolute, " (", span, " ago)");
}

}  // namespace idempotency::internal

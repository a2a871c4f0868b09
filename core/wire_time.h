#ifndef IDEMPOTENCY_CORE_WIRE_TIME_H_
#define IDEMPOTENCY_CORE_WIRE_TIME_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/time_util.h"

namespace idempotency::internal {

// absl's times on the wire, and back. Parts of a nanosecond are cut off towards zero.

// True for a value that duration.proto permits: about +-10,000 years, with nanos of the same sign.
inline bool IsValid(const google::protobuf::Duration& wire) {
  constexpr std::int64_t kMaxSeconds = google::protobuf::util::TimeUtil::kDurationMaxSeconds;
  constexpr std::int32_t kMaxNanos = 999'999'999;
  const bool in_range = wire.seconds() >= -kMaxSeconds && wire.seconds() <= kMaxSeconds &&
                        wire.nanos() >= -kMaxNanos && wire.nanos() <= kMaxNanos;
  const bool same_sign =
      (wire.seconds() <= 0 || wire.nanos() >= 0) && (wire.seconds() >= 0 || wire.nanos() <= 0);
  return in_range && same_sign;
}

inline void ToWire(absl::Duration duration, google::protobuf::Duration& wire) {
  wire.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  wire.set_nanos(static_cast<std::int32_t>(absl::ToInt64Nanoseconds(duration)));
}

inline google::protobuf::Duration ToWire(absl::Duration duration) {
  google::protobuf::Duration wire;
  ToWire(duration, wire);
  return wire;
}

inline void ToWire(absl::Time time, google::protobuf::Timestamp& wire) {
  const std::int64_t seconds = absl::ToUnixSeconds(time);
  wire.set_seconds(seconds);
  wire.set_nanos(
      static_cast<std::int32_t>(absl::ToInt64Nanoseconds(time - absl::FromUnixSeconds(seconds))));
}

// Also for a value that is not valid: the sum of its parts.
inline absl::Duration FromWire(const google::protobuf::Duration& wire) {
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

inline absl::Time FromWire(const google::protobuf::Timestamp& wire) {
  return absl::FromUnixSeconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CORE_WIRE_TIME_H_

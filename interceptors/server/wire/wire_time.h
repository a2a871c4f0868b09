#ifndef IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_WIRE_TIME_H_
#define IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_WIRE_TIME_H_

#include <cstdint>

#include "absl/time/time.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/timestamp.pb.h"

namespace idempotency::internal {

inline google::protobuf::Duration ToWire(absl::Duration duration) {
  google::protobuf::Duration wire;
  wire.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &duration));
  wire.set_nanos(
      static_cast<std::int32_t>(absl::IDivDuration(duration, absl::Nanoseconds(1), &duration)));
  return wire;
}

inline absl::Duration FromWire(const google::protobuf::Duration& wire) {
  return absl::Seconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

inline absl::Time FromWire(const google::protobuf::Timestamp& wire) {
  return absl::FromUnixSeconds(wire.seconds()) + absl::Nanoseconds(wire.nanos());
}

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_INTERCEPTORS_SERVER_WIRE_WIRE_TIME_H_

#include "core/wire_time.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace idempotency::internal {
namespace {

google::protobuf::Duration Wire(std::int64_t seconds, std::int32_t nanos) {
  google::protobuf::Duration wire;
  wire.set_seconds(seconds);
  wire.set_nanos(nanos);
  return wire;
}

TEST(WireTimeTest, DurationsAreTheSameAfterARoundTrip) {
  for (const absl::Duration duration :
       {absl::ZeroDuration(), absl::Nanoseconds(1), absl::Milliseconds(1'500),
        absl::Hours(24 * 365), -absl::Nanoseconds(1), -absl::Milliseconds(1'500)}) {
    const google::protobuf::Duration wire = ToWire(duration);
    EXPECT_TRUE(IsValid(wire)) << duration;
    EXPECT_EQ(FromWire(wire), duration);
  }
  EXPECT_EQ(ToWire(absl::Milliseconds(1'500)).seconds(), 1);
  EXPECT_EQ(ToWire(absl::Milliseconds(1'500)).nanos(), 500'000'000);
  EXPECT_EQ(ToWire(-absl::Milliseconds(1'500)).seconds(), -1);
  EXPECT_EQ(ToWire(-absl::Milliseconds(1'500)).nanos(), -500'000'000);
}

TEST(WireTimeTest, PartsOfANanosecondAreCutOff) {
  EXPECT_EQ(ToWire(absl::Nanoseconds(3) / 2).nanos(), 1);
  EXPECT_EQ(ToWire(-absl::Nanoseconds(3) / 2).nanos(), -1);
}

// timestamp.proto: nanos count forward, also before 1970.
TEST(WireTimeTest, TimesAreTheSameAfterARoundTrip) {
  const absl::Time epoch = absl::UnixEpoch();
  for (const absl::Time time : {epoch, epoch + absl::Milliseconds(1'500),
                                epoch - absl::Milliseconds(1'500), absl::FromUnixSeconds(4e9)}) {
    google::protobuf::Timestamp wire;
    ToWire(time, wire);
    EXPECT_GE(wire.nanos(), 0) << time;
    EXPECT_EQ(FromWire(wire), time);
  }
}

TEST(WireTimeTest, ValidIsWhatTheProtoPermits) {
  constexpr std::int64_t kMax = 315'576'000'000;
  EXPECT_TRUE(IsValid(Wire(kMax, 999'999'999)));
  EXPECT_TRUE(IsValid(Wire(-kMax, -999'999'999)));
  EXPECT_TRUE(IsValid(Wire(0, -1)));
  EXPECT_FALSE(IsValid(Wire(kMax + 1, 0)));
  EXPECT_FALSE(IsValid(Wire(-kMax - 1, 0)));
  EXPECT_FALSE(IsValid(Wire(0, 1'000'000'000)));
  EXPECT_FALSE(IsValid(Wire(0, -1'000'000'000)));
  EXPECT_FALSE(IsValid(Wire(1, -1)));
  EXPECT_FALSE(IsValid(Wire(-1, 1)));
}

}  // namespace
}  // namespace idempotency::internal

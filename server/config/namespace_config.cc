#include "server/config/namespace_config.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "core/wire_time.h"
#include "grpc_idempotency/limits.h"
#include "server/store/limits.h"

namespace idempotency::internal {
namespace {

// A million per second is more than one replica answers; a rate under one per day is a typing
// error.
constexpr double kMaxRate = 1e6;
constexpr double kMinRate = 1e-5;
// As many as a measurement counts (UsageMeter::Options::max_rows).
constexpr std::uint64_t kMaxRecordQuota = 10'000'000;
// More than any database holds; sums of it do not overflow.
constexpr std::uint64_t kMaxByteQuota = 1'000'000'000'000'000;
// Less would end records that a guard's recovery is about to settle.
constexpr absl::Duration kMinUnknownLife = absl::Minutes(1);
constexpr absl::Duration kMinWindow = absl::Minutes(1);

std::optional<std::int64_t> ReadQuota(const std::string& field, bool is_set, std::uint64_t value,
                                      std::uint64_t max, const ConfigPlace& place,
                                      ConfigFaults& faults) {
  if (!is_set) return std::nullopt;
  if (value == 0 || value > max) {
    faults.Add(place.LineOf(field), absl::StrCat(field, " must be 1 to ", max));
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

// Callers that wait leave places to those that do not.
void ReadMaxWaiting(const config::v1::Limits& limits, const ConfigPlace& place,
                    NamespaceSettings& settings, ConfigFaults& faults) {
  if (!limits.has_max_waiting()) {
    if (limits.has_max_in_flight()) settings.max_waiting = limits.max_in_flight() / 2;
    return;
  }
  settings.max_waiting = limits.max_waiting();
  if (limits.has_max_in_flight() && limits.max_waiting() >= limits.max_in_flight()) {
    faults.Add(place.LineOf("max_waiting"),
               "max_waiting must be below max_in_flight: callers that wait for one slow key would "
               "take every place");
  }
}

void ReadLimits(const config::v1::Limits& limits, const ConfigPlace& place,
                NamespaceSettings& settings, ConfigFaults& faults) {
  if (limits.has_max_rate()) {
    settings.max_rate = limits.max_rate();
    // Also false for NaN.
    if (!(limits.max_rate() >= kMinRate && limits.max_rate() <= kMaxRate)) {
      faults.Add(place.LineOf("max_rate"), "max_rate must be 0.00001 to 1000000 per second");
      settings.max_rate.reset();
    } else {
      settings.burst = static_cast<std::uint32_t>(std::ceil(limits.max_rate()));
    }
  }
  if (limits.has_burst()) {
    settings.burst = limits.burst();
    if (limits.burst() == 0) faults.Add(place.LineOf("burst"), "burst must be at least 1");
    if (!limits.has_max_rate()) {
      faults.Add(place.LineOf("burst"), "burst has no effect without max_rate; set both");
    }
  }
  if (limits.has_max_in_flight()) {
    settings.max_in_flight = limits.max_in_flight();
    if (limits.max_in_flight() == 0) {
      faults.Add(place.LineOf("max_in_flight"),
                 "max_in_flight must be at least 1; to exclude callers, remove their rule");
    }
  }
  ReadMaxWaiting(limits, place, settings, faults);
  settings.max_records = ReadQuota("max_records", limits.has_max_records(), limits.max_records(),
                                   kMaxRecordQuota, place, faults);
  settings.max_reply_bytes = ReadQuota("max_reply_bytes", limits.has_max_reply_bytes(),
                                       limits.max_reply_bytes(), kMaxByteQuota, place, faults);
}

// A duration within bounds, or `fallback` if it is not set.
absl::Duration ReadDuration(const std::string& field, bool is_set,
                            const google::protobuf::Duration& value, absl::Duration fallback,
                            absl::Duration min, absl::Duration max, const ConfigPlace& place,
                            ConfigFaults& faults) {
  if (!is_set) return fallback;
  const absl::Duration duration = FromWire(value);
  if (IsValid(value) && duration >= min && duration <= max) return duration;
  faults.Add(place.LineOf(field), absl::StrCat(field, " must be ", absl::FormatDuration(min),
                                               " to ", absl::FormatDuration(max)));
  return fallback;
}

void ReadRetention(const config::v1::Retention& retention, const ConfigPlace& place,
                   NamespaceSettings& settings, ConfigFaults& faults) {
  settings.min_retention =
      ReadDuration("min", retention.has_min(), retention.min(), settings.min_retention,
                   limits::kMinRetention, limits::kMaxRetention, place, faults);
  settings.max_retention =
      ReadDuration("max", retention.has_max(), retention.max(), settings.max_retention,
                   limits::kMinRetention, limits::kMaxRetention, place, faults);
  if (settings.min_retention > settings.max_retention) {
    faults.Add(place.own_line(), "min must not be over max");
    return;
  }
  settings.default_retention = ReadDuration(
      "default", retention.has_default_(), retention.default_(),
      std::clamp(limits::kDefaultRetention, settings.min_retention, settings.max_retention),
      settings.min_retention, settings.max_retention, place, faults);
}

}  // namespace

std::optional<absl::Time> ReadNotBefore(const std::string& text, const ConfigPlace& place,
                                        ConfigFaults& faults) {
  if (text.empty()) return std::nullopt;
  absl::Time time;
  std::string fault;
  // The parser also takes words for times without an end.
  if (!absl::ParseTime(absl::RFC3339_full, text, &time, &fault) || time == absl::InfinitePast() ||
      time == absl::InfiniteFuture()) {
    faults.Add(place.LineOf("not_before"),
               "not_before must be a time such as \"2026-11-23T10:00:00Z\"");
    return std::nullopt;
  }
  // An operator who raises a window sets it a little later, by the clocks of all replicas.
  if (time > absl::Now() + limits::kClockStepMargin) {
    faults.Add(place.LineOf("not_before"),
               absl::StrCat("not_before must not be in the future by more than ",
                            absl::FormatDuration(limits::kClockStepMargin)));
  }
  return time;
}

NamespaceSettings ReadNamespace(const config::v1::Namespace& name_space, const ConfigPlace& place,
                                ConfigFaults& faults) {
  NamespaceSettings settings;
  if (name_space.has_limits()) {
    ReadLimits(name_space.limits(), place.In("limits"), settings, faults);
  }
  if (name_space.has_retention()) {
    ReadRetention(name_space.retention(), place.In("retention"), settings, faults);
  }
  settings.window = ReadDuration("window", name_space.has_window(), name_space.window(),
                                 settings.window, kMinWindow, limits::kMaxRetention, place, faults);
  if (name_space.has_unknown_life()) {
    settings.unknown_life =
        ReadDuration("unknown_life", true, name_space.unknown_life(), limits::kMaxRetention,
                     kMinUnknownLife, limits::kMaxRetention, place, faults);
  }
  settings.not_before = ReadNotBefore(name_space.not_before(), place, faults);
  return settings;
}

}  // namespace idempotency::internal

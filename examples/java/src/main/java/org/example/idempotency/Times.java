package org.example.idempotency;

import com.google.protobuf.Timestamp;
import java.time.Duration;
import java.time.Instant;

/** Durations and times of protobuf. */
final class Times {
  private Times() {}

  static com.google.protobuf.Duration proto(Duration value) {
    return com.google.protobuf.Duration.newBuilder()
        .setSeconds(value.getSeconds())
        .setNanos(value.getNano())
        .build();
  }

  static Timestamp proto(Instant value) {
    return Timestamp.newBuilder()
        .setSeconds(value.getEpochSecond())
        .setNanos(value.getNano())
        .build();
  }

  static Duration of(com.google.protobuf.Duration value) {
    return Duration.ofSeconds(value.getSeconds(), value.getNanos());
  }

  static Instant of(Timestamp value) {
    return Instant.ofEpochSecond(value.getSeconds(), value.getNanos());
  }

  static Duration min(Duration a, Duration b) {
    return a.compareTo(b) <= 0 ? a : b;
  }

  static Duration max(Duration a, Duration b) {
    return a.compareTo(b) >= 0 ? a : b;
  }
}

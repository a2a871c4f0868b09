package org.example.idempotency;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import com.google.rpc.Status;
import dev.grpcidempotency.v1.OutcomeUnknown;
import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.Map;

/**
 * An error of docs/errors.md.
 *
 * @param delay before a retry; zero: none is stated; negative: no retries
 */
record Refusal(
    Code code, String reason, String message, Map<String, String> metadata, Duration delay) {
  static final String DOMAIN = "grpc-idempotency.dev";
  static final Duration NO_RETRIES = Duration.ofMillis(-1);

  static final Metadata.Key<String> PUSHBACK = ascii("grpc-retry-pushback-ms");
  static final Metadata.Key<String> RECORD = ascii("idempotency-record");

  /** Of gRPC's own retries; RetryInfo has the whole delay. */
  private static final Duration MAX_PUSHBACK = Duration.ofSeconds(1);

  private static final Duration MIN_PUSHBACK = Duration.ofMillis(1);

  Refusal(Code code, String reason, String message) {
    this(code, reason, message, Map.of(), Duration.ZERO);
  }

  Refusal withDelay(Duration value) {
    return new Refusal(code, reason, message, metadata, value);
  }

  Refusal withMetadata(Map<String, String> value) {
    return new Refusal(code, reason, message, value, delay);
  }

  static Refusal outcomeUnknown(OutcomeUnknown unknown) {
    return new Refusal(
        Code.FAILED_PRECONDITION,
        "OUTCOME_UNKNOWN",
        "the outcome is unknown: do not retry, find out",
        Map.of(
            "cause", unknown.getCause().name().replaceFirst("^CAUSE_", ""),
            "reason", unknown.getReason(),
            "since", Times.of(unknown.getSince()).toString(),
            "attempt", Integer.toUnsignedString(unknown.getAttempt())),
        NO_RETRIES);
  }

  /** The refusal as an error of gRPC, with its trailers; the record's id may be empty. */
  StatusRuntimeException error(String record) {
    Status.Builder status = Status.newBuilder().setCode(code.value()).setMessage(message);
    status.addDetails(
        Any.pack(
            ErrorInfo.newBuilder()
                .setReason(reason)
                .setDomain(DOMAIN)
                .putAllMetadata(metadata)
                .build()));
    Metadata trailers = new Metadata();
    if (!record.isEmpty()) {
      trailers.put(RECORD, record);
    }
    if (delay.isNegative()) {
      trailers.put(PUSHBACK, "-1");
    } else if (!delay.isZero()) {
      status.addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(Times.proto(delay)).build()));
      trailers.put(PUSHBACK, Long.toString(pushback().toMillis()));
    }
    return StatusProto.toStatusRuntimeException(status.build(), trailers);
  }

  private Duration pushback() {
    if (delay.compareTo(MAX_PUSHBACK) > 0) {
      return MAX_PUSHBACK;
    }
    return delay.compareTo(MIN_PUSHBACK) < 0 ? MIN_PUSHBACK : delay;
  }

  static Metadata.Key<String> ascii(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }
}

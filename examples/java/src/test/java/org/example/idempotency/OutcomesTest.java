package org.example.idempotency;

import static org.example.idempotency.Shop.detailed;
import static org.example.idempotency.Shop.refused;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.grpc.Status;
import io.grpc.Status.Code;
import java.util.List;
import org.example.idempotency.Shop.Answer;
import org.example.payments.v1.PaymentsGrpc;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A failure that may have had an effect is not run again. */
@Timeout(60)
final class OutcomesTest {
  @Test
  void anExceptionLeavesTheOutcomeUnknown() {
    for (Throwable thrown :
        List.of(
            new IllegalStateException("bug"),
            new AssertionError("bug"),
            Status.NOT_FOUND.asRuntimeException())) {
      try (Shop shop = new Shop()) {
        shop.does(
            (request, answer) -> {
              if (thrown instanceof Error error) {
                throw error;
              }
              throw (RuntimeException) thrown;
            });
        refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
        refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
        shop.ran(1);
      }
    }
  }

  @Test
  void anUnknownOutcomeIsNotRunAgain() {
    for (Throwable failure :
        List.of(
            Status.INTERNAL.withDescription("the bank did not answer").asException(),
            new IllegalStateException("no status"),
            detailed(Code.ABORTED, "IN_FLIGHT", "grpc-idempotency.dev"),
            Status.RESOURCE_EXHAUSTED
                .withDescription("gRPC message exceeds maximum size 4194304: 5000000")
                .asException())) {
      try (Shop shop =
          new Shop(
              config ->
                  config.released(
                      PaymentsGrpc.getChargeMethod(), Code.ABORTED, Code.RESOURCE_EXHAUSTED))) {
        shop.does((request, answer) -> answer.onError(failure));
        refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
        refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
        shop.ran(1);
      }
    }
  }

  @Test
  void aReleasedCodeRunsAgain() {
    try (Shop shop =
        new Shop(config -> config.released(PaymentsGrpc.getChargeMethod(), Code.ABORTED))) {
      shop.does(
          (request, answer) ->
              answer.onError(Status.ABORTED.withDescription("the bank is closed").asException()));
      for (int i = 0; i < 2; i++) {
        Answer got = shop.charge("order-1");
        refused(got, Code.ABORTED, "");
        assertEquals("the bank is closed", got.status().getDescription());
      }
      shop.ran(2);
    }
  }
}

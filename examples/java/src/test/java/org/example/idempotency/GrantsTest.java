package org.example.idempotency;

import static org.example.idempotency.Faults.lost;
import static org.example.idempotency.Shop.WITHIN;
import static org.example.idempotency.Shop.attempt;
import static org.example.idempotency.Shop.recordKey;
import static org.example.idempotency.Shop.refused;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.grpcidempotency.v1.LeaseExpiry;
import dev.grpcidempotency.v1.RecordState;
import dev.grpcidempotency.v1.ReleaseRequest;
import io.grpc.Status;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.concurrent.atomic.AtomicInteger;
import org.example.payments.v1.PaymentsGrpc;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A grant does not run behind the undecided attempt of another guard. */
@Timeout(60)
final class GrantsTest {
  @Test
  void anAttemptOfAnotherGuardMayHaveRun() { // whether the record can be read or not
    try (Shop shop = new Shop(config -> config, Faults.thrown("Get"))) {
      shop.service.reserve(
          attempt("order-1").setOnLeaseExpiry(LeaseExpiry.LEASE_EXPIRY_TAKE_OVER).build());
      shop.advance(Duration.ofMinutes(1));
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      shop.ran(0);
    }
  }

  @Test
  void anAttemptOfAnotherGuardMayHaveReleasedAnUnknownOutcome() {
    try (Shop shop = new Shop()) {
      var reserved =
          shop.service.reserve(
              attempt("order-1").setOnLeaseExpiry(LeaseExpiry.LEASE_EXPIRY_TAKE_OVER).build());
      shop.service.release(
          ReleaseRequest.newBuilder()
              .setRecordKey(recordKey("order-1"))
              .setReservationToken(reserved.getReserved().getReservationToken())
              .build());
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      shop.ran(0);
    }
  }

  @Test
  void aGrantOfAnotherGuardsRecordIsNotGivenBackAsIfNothingHappened() throws Exception {
    try (Shop shop =
        new Shop(
            config -> config.reserveFor(Duration.ofMillis(50)),
            lost("Reserve", 1, new AtomicInteger()))) {
      shop.service.reserve(
          attempt("order-1").setOnLeaseExpiry(LeaseExpiry.LEASE_EXPIRY_TAKE_OVER).build());
      shop.advance(Duration.ofMinutes(1));
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_UNKNOWN, shop.record("order-1").getState());
    }
  }

  @Test
  void aRecordThatCannotBeReadIsGivenBack() throws Exception {
    try (Shop shop =
        new Shop(
            config -> config.released(PaymentsGrpc.getChargeMethod(), Code.ABORTED),
            Faults.thrown("Get"))) {
      shop.does((request, answer) -> answer.onError(Status.ABORTED.asException()));
      refused(shop.charge("order-1"), Code.ABORTED, "");
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      assertEquals(RecordState.RECORD_STATE_RELEASED, shop.record("order-1").getState());
      shop.ran(1);
    }
  }
}

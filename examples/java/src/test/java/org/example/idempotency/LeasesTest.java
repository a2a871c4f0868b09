package org.example.idempotency;

import static org.example.idempotency.Shop.answered;
import static org.example.idempotency.Shop.attempt;
import static org.example.idempotency.Shop.ended;
import static org.example.idempotency.Shop.later;
import static org.example.idempotency.Shop.received;
import static org.example.idempotency.Shop.refused;
import static org.example.idempotency.Shop.replayed;
import static org.example.idempotency.Shop.sleep;
import static org.example.idempotency.Shop.succeeded;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.grpcidempotency.testing.v1.ResetRequest;
import io.grpc.Context;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.example.idempotency.Shop.Answer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A handler works under a lease, which is extended until the call ends. */
@Timeout(60)
final class LeasesTest {
  private static Config.Builder withShortLease(Config.Builder config) {
    return config.lease(Duration.ofSeconds(3));
  }

  @Test
  void aLeaseIsKept() {
    BlockingQueue<String> extended = new LinkedBlockingQueue<>();
    try (Shop shop =
        new Shop(
            config -> config.lease(Duration.ofSeconds(6)),
            Faults.atEnd(
                "Extend",
                status -> {
                  extended.add("");
                  return status;
                }))) {
      shop.does(
          (request, answer) -> {
            for (int i = 0; i < 4; i++) { // longer than the lease
              received(extended);
            }
            assertFalse(Context.current().isCancelled());
            answered(answer, "charge 1");
          });
      succeeded(shop.charge("order-1"));
    }
  }

  @Test
  void aHandlerDoesNotBeginAfterItsLease() throws Exception {
    AtomicInteger reserves = new AtomicInteger();
    try (Shop shop =
        new Shop(
            config -> config.lease(Duration.ofMillis(300)),
            Faults.atEnd(
                "Reserve",
                status -> {
                  if (reserves.incrementAndGet() == 1) {
                    sleep(Duration.ofMillis(500)); // the process is stopped
                  }
                  return status;
                }))) {
      refused(shop.charge("order-1"), Code.ABORTED, "RESERVATION_LOST", "100");
      shop.ran(0);
    }
  }

  @Test
  void aLostReservationEndsTheHandlersContext() {
    try (Shop shop = new Shop(LeasesTest::withShortLease)) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      BlockingQueue<String> taken = new LinkedBlockingQueue<>();
      BlockingQueue<Throwable> cause = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            cause.add(ended(Context.current()));
            received(taken);
            answered(answer, "charge 1"); // it had begun the effect before
          });
      CompletableFuture<Answer> first = later(() -> shop.charge("order-1"));
      received(began);
      shop.advance(Duration.ofMinutes(1));
      // Another attempt is granted.
      var verdict = shop.service.reserve(attempt("order-1").setRecover(true).build());
      taken.add("");
      assertTrue(verdict.getReserved().getRecovering(), verdict.toString());
      assertInstanceOf(ReservationLostException.class, received(cause));
      refused(first.join(), Code.ABORTED, "RESERVATION_LOST", "100");
      shop.ran(1);
    }
  }

  @Test
  void anEffectAfterTheLeaseIsRecordedUnlessAnotherAttemptWasGranted() {
    try (Shop shop = new Shop(LeasesTest::withShortLease)) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            ended(Context.current());
            answered(answer, "charge 1");
          });
      CompletableFuture<Answer> answer = later(() -> shop.charge("order-1"));
      received(began);
      shop.advance(Duration.ofMinutes(1));
      Answer first = answer.join();
      succeeded(first);
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void aSupersededAttemptWhoseRecordIsGone() {
    AtomicBoolean away = new AtomicBoolean();
    try (Shop shop = new Shop(LeasesTest::withShortLease, Faults.away(away))) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      BlockingQueue<String> gone = new LinkedBlockingQueue<>();
      BlockingQueue<Throwable> cause = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            cause.add(ended(Context.current()));
            received(gone);
            answered(answer, "charge 1");
          });
      CompletableFuture<Answer> first = later(() -> shop.charge("order-1"));
      received(began);
      away.set(true); // no Extend finds the time between
      shop.advance(Duration.ofMinutes(1));
      shop.service.reserve(attempt("order-1").setRecover(true).build());
      away.set(false);
      received(cause);
      shop.testing.reset(ResetRequest.getDefaultInstance());
      gone.add("");
      refused(first.join(), Code.ABORTED, "RESERVATION_LOST", "-1");
    }
  }
}

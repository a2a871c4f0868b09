package org.example.idempotency;

import static org.example.idempotency.Faults.lost;
import static org.example.idempotency.Shop.WITHIN;
import static org.example.idempotency.Shop.answered;
import static org.example.idempotency.Shop.ended;
import static org.example.idempotency.Shop.refused;
import static org.example.idempotency.Shop.replayed;
import static org.example.idempotency.Shop.sleep;
import static org.example.idempotency.Shop.succeeded;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.grpcidempotency.testing.v1.ResetRequest;
import dev.grpcidempotency.v1.RecordState;
import io.grpc.Context;
import io.grpc.Status;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.example.idempotency.Shop.Answer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Without the service nothing runs; lost answers and lost records run nothing again. */
@Timeout(60)
final class ServiceFaultsTest {
  @Test
  void theAnswerOfReserveMayBeLost() {
    try (Shop shop = new Shop(config -> config, lost("Reserve", 1, new AtomicInteger()))) {
      succeeded(shop.charge("order-1"));
      shop.ran(1);
      assertEquals(1, shop.record("order-1").getAttempt());
    }
  }

  @Test
  void aReservationOfACallerThatGaveUpIsGivenBack() throws Exception {
    try (Shop shop =
        new Shop(
            config -> config.reserveFor(Duration.ofMillis(50)),
            lost("Reserve", 1, new AtomicInteger()))) {
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_RELEASED, shop.record("order-1").getState());
      shop.ran(0);
    }
  }

  @Test
  void theAnswerOfCompleteMayBeLost() {
    AtomicInteger tries = new AtomicInteger();
    try (Shop shop = new Shop(config -> config, lost("Complete", 2, tries))) {
      Answer first = shop.charge("order-1");
      succeeded(first);
      assertEquals(3, tries.get());
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void nothingRunsWithoutTheDaemon() {
    try (Shop shop =
        new Shop(
            "127.0.0.1:1",
            config -> config.reserveFor(Duration.ofMillis(300)).lease(Duration.ofSeconds(1)))) {
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
      shop.ran(0);
    }
  }

  @Test
  void aDaemonThatIsAwayDuringTheWork() {
    AtomicBoolean away = new AtomicBoolean();
    try (Shop shop =
        new Shop(
            config ->
                config
                    .lease(Duration.ofMillis(600))
                    .maxWait(Duration.ofMillis(250))
                    .settleFor(Duration.ofMillis(300)),
            Faults.away(away))) {
      shop.does(
          (request, answer) -> {
            away.set(true);
            ended(Context.current()); // the lease is over
            answered(answer, "charge 1");
          });
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
      away.set(false);
      sleep(Duration.ofSeconds(1)); // by the daemon's clock the lease may end later
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      shop.ran(1);
    }
  }

  @Test
  void anInterceptorOfTheChannelMayThrow() {
    for (String name : List.of("Reserve", "Extend", "Complete")) {
      try (Shop shop =
          new Shop(config -> config.lease(Duration.ofSeconds(1)), Faults.thrown(name))) {
        shop.does(
            (request, answer) -> {
              if (name.equals("Extend")) {
                assertInstanceOf(ReservationLostException.class, ended(Context.current()));
              }
              answered(answer, "charge 1");
            });
        Answer got = shop.charge("order-1");
        switch (name) {
          case "Reserve" -> refused(got, Code.UNAVAILABLE, "STORE_UNAVAILABLE", "1000");
          case "Extend" -> succeeded(got);
          default -> refused(got, Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
        }
      }
    }
  }

  @Test
  void aReplyWhoseRecordIsGone() {
    for (Status status : List.of(Status.OK, Status.FAILED_PRECONDITION)) {
      try (Shop shop = new Shop()) {
        shop.does(
            (request, answer) -> {
              shop.testing.reset(ResetRequest.getDefaultInstance());
              if (status.isOk()) {
                answered(answer, "charge 1");
              } else {
                answer.onError(status.asException());
              }
            });
        Answer got = shop.charge("order-1");
        refused(got, status.getCode(), "", status.isOk() ? new String[0] : new String[] {"-1"});
        assertEquals(1, got.trailer("idempotency-record").size());
        assertEquals(List.of(), got.trailer("idempotency-expires"));
      }
    }
  }
}

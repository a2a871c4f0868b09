package org.example.idempotency;

import static org.example.idempotency.Shop.WITHIN;
import static org.example.idempotency.Shop.answered;
import static org.example.idempotency.Shop.ended;
import static org.example.idempotency.Shop.order;
import static org.example.idempotency.Shop.received;
import static org.example.idempotency.Shop.sleep;
import static org.example.idempotency.Shop.succeeded;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.grpcidempotency.v1.RecordState;
import io.grpc.Context;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.example.idempotency.Shop.Answer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A handler's Context has the values of the caller's, and not its end. */
@Timeout(60)
final class ContextsTest {
  @Test
  void aHandlersContextHasTheValuesOfTheCallersAndItsOwnDeadline() {
    try (Shop shop = new Shop(config -> config.maxWork(Duration.ofMinutes(3)))) {
      BlockingQueue<String> user = new LinkedBlockingQueue<>();
      BlockingQueue<Long> seconds = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            user.add(Shop.USER.get());
            seconds.add(Context.current().getDeadline().timeRemaining(TimeUnit.SECONDS));
            answered(answer, "charge 1");
          });
      succeeded(shop.charge("order-1"));
      assertEquals("alice", received(user));
      long left = received(seconds);
      assertTrue(left > 60 && left <= 180, left + " s");
    }
  }

  @Test
  void aClientWhoseDeadlineEndsGetsTheReplyWithItsRetry() {
    try (Shop shop = new Shop(config -> config.maxWait(Duration.ofSeconds(4)))) {
      shop.does(
          (request, answer) -> {
            ended(received(shop.callers));
            assertFalse(Context.current().isCancelled());
            assertFalse(((io.grpc.stub.ServerCallStreamObserver<?>) answer).isCancelled());
            answered(answer, "charge 1");
          });
      Answer first = shop.call(order(500), Duration.ofSeconds(2), "order-1");
      assertEquals(Code.DEADLINE_EXCEEDED, first.code());
      Answer retry = shop.charge("order-1");
      succeeded(retry);
      assertEquals(List.of("true"), retry.trailer("idempotency-replayed"));
      shop.ran(1);
    }
  }

  @Test
  void theWorkOfACallerWhoLeftIsWaitedFor() throws Exception {
    try (Shop shop = new Shop()) {
      BlockingQueue<String> began = new LinkedBlockingQueue<>();
      BlockingQueue<String> finish = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            began.add("");
            received(finish);
            answered(answer, "charge 1");
          });
      assertEquals(
          Code.DEADLINE_EXCEEDED, shop.call(order(500), Duration.ofSeconds(1), "order-1").code());
      received(began);
      assertFalse(shop.guard.awaitSettled(Duration.ofMillis(100)));
      finish.add("");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_COMPLETED, shop.record("order-1").getState());
    }
  }

  @Test
  void aCallerWhoLeavesBeforeTheWorkBegins() throws Exception {
    AtomicBoolean slow = new AtomicBoolean();
    try (Shop shop =
        new Shop(
            config -> config,
            Faults.atEnd(
                "Reserve",
                status -> {
                  if (slow.get()) {
                    sleep(Duration.ofSeconds(2));
                  }
                  return status;
                }))) {
      succeeded(shop.charge("order-0")); // it connects
      received(shop.callers);
      slow.set(true);
      Answer got = shop.call(order(500), Duration.ofSeconds(1), "order-1");
      assertEquals(Code.DEADLINE_EXCEEDED, got.code());
      ended(received(shop.callers));
      assertTrue(shop.guard.awaitSettled(WITHIN));
      assertEquals(RecordState.RECORD_STATE_RELEASED, shop.record("order-1").getState());
      shop.ran(1);
    }
  }
}

package org.example.idempotency;

import static org.example.idempotency.Shop.WITHIN;
import static org.example.idempotency.Shop.answered;
import static org.example.idempotency.Shop.ended;
import static org.example.idempotency.Shop.later;
import static org.example.idempotency.Shop.received;
import static org.example.idempotency.Shop.refused;
import static org.example.idempotency.Shop.replayed;
import static org.example.idempotency.Shop.succeeded;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Context;
import io.grpc.Status;
import io.grpc.Status.Code;
import io.grpc.stub.StreamObserver;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import org.example.idempotency.Shop.Answer;
import org.example.payments.v1.ChargeReply;
import org.example.payments.v1.ChargeRequest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A handler ends its call once, also later and in another thread. */
@Timeout(60)
final class EndOfCallTest {
  @Test
  void anExceptionAfterTheAnswerDoesNotChangeIt() {
    try (Shop shop = new Shop()) {
      shop.does(
          (request, answer) -> {
            answered(answer, "charge 1");
            throw new IllegalStateException("bug");
          });
      Answer first = shop.charge("order-1");
      succeeded(first);
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void aHandlerThatAnswersTwice() {
    Map<String, Shop.Work> mistakes =
        Map.of(
            "two responses",
                (request, answer) -> {
                  answer.onNext(ChargeReply.newBuilder().setChargeId("1").build());
                  answered(answer, "2");
                },
            "no response", (request, answer) -> answer.onCompleted());
    mistakes.forEach(
        (name, mistake) -> {
          try (Shop shop = new Shop()) {
            shop.does((request, answer) -> later(() -> mistaken(mistake, request, answer)));
            refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
            refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
          }
        });
  }

  /** In a thread whose exceptions the guard does not get. */
  private static Answer mistaken(
      Shop.Work mistake, ChargeRequest request, StreamObserver<ChargeReply> answer) {
    try {
      mistake.charge(request, answer);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
    return null;
  }

  @Test
  void theFirstEndOfACallCounts() {
    try (Shop shop = new Shop()) {
      BlockingQueue<Throwable> second = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            answered(answer, "charge 1");
            try {
              answer.onError(Status.NOT_FOUND.asException());
              second.add(new AssertionError("accepted"));
            } catch (IllegalStateException e) {
              second.add(e);
            }
          });
      Answer first = shop.charge("order-1");
      succeeded(first);
      assertInstanceOf(IllegalStateException.class, received(second));
      replayed(shop.charge("order-1"), first);
    }
  }

  @Test
  void aHandlerMayAnswerLaterInAnotherThread() {
    try (Shop shop = new Shop()) {
      shop.does(
          (request, answer) ->
              new Thread(Context.current().wrap(() -> answered(answer, "charge 1"))).start());
      Answer first = shop.charge("order-1");
      succeeded(first);
      replayed(shop.charge("order-1"), first);
      shop.ran(1);
    }
  }

  @Test
  void aHandlerThatDoesNotCloseItsCall() throws Exception {
    try (Shop shop =
        new Shop(config -> config.lease(Duration.ofSeconds(1)).maxWork(Duration.ofMillis(100)))) {
      CompletableFuture<StreamObserver<ChargeReply>> open = new CompletableFuture<>();
      BlockingQueue<Context> context = new LinkedBlockingQueue<>();
      shop.does(
          (request, answer) -> {
            context.add(Context.current());
            open.complete(answer);
          });
      refused(shop.charge("order-1"), Code.UNAVAILABLE, "OUTCOME_NOT_RECORDED");
      refused(shop.charge("order-1"), Code.FAILED_PRECONDITION, "OUTCOME_UNKNOWN", "-1");
      ended(received(context));
      // The effect happened: its late reply is recorded.
      answered(open.get(), "charge 1");
      assertTrue(shop.guard.awaitSettled(WITHIN));
      Answer retry = shop.charge("order-1");
      succeeded(retry);
      assertEquals(List.of("true"), retry.trailer("idempotency-replayed"));
      shop.ran(1);
    }
  }
}

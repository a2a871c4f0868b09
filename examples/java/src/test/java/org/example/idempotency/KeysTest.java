package org.example.idempotency;

import static org.example.idempotency.Shop.WITHIN;
import static org.example.idempotency.Shop.order;
import static org.example.idempotency.Shop.refused;
import static org.example.idempotency.Shop.succeeded;
import static org.junit.jupiter.api.Assertions.assertEquals;

import io.grpc.Status;
import io.grpc.Status.Code;
import java.util.List;
import java.util.UUID;
import org.example.idempotency.Shop.Answer;
import org.example.payments.v1.PaymentsGrpc;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A guarded call has one valid key, for one request of one caller. */
@Timeout(60)
final class KeysTest {
  @Test
  void aCallWithoutAValidKeyIsRefused() {
    try (Shop shop = new Shop()) {
      refused(shop.call(order(500), WITHIN), Code.INVALID_ARGUMENT, "KEY_MISSING");
      for (String key :
          List.of(
              "a b", "\"a", "a\"b", "a,b", "\"\"", "\"a\"b\"", "\"a\\b\"", "a".repeat(256), "")) {
        refused(shop.charge(key), Code.INVALID_ARGUMENT, "KEY_INVALID");
      }
      shop.ran(0);
    }
  }

  @Test
  void aCallerMaySendItsKeyTwice() {
    try (Shop shop = new Shop()) {
      String key = UUID.randomUUID().toString();
      succeeded(shop.call(order(500), WITHIN, key, key.toUpperCase()));
      succeeded(shop.call(order(500), WITHIN, key, '"' + key + '"'));
      refused(shop.call(order(500), WITHIN, key, "order-1"), Code.INVALID_ARGUMENT, "KEY_INVALID");
      shop.ran(1);
    }
  }

  @Test
  void aKeyThatTheServiceRefuses() {
    try (Shop shop = new Shop()) { // made in the year 2557
      refused(
          shop.charge("0fffffff-ffff-7fff-8fff-ffffffffffff"),
          Code.INVALID_ARGUMENT,
          "KEY_INVALID");
      shop.ran(0);
    }
  }

  @Test
  void anotherRequestIsRefused() {
    try (Shop shop = new Shop()) {
      succeeded(shop.charge("order-1"));
      Answer got = shop.call(order(900), WITHIN, "order-1");
      refused(got, Code.FAILED_PRECONDITION, "KEY_REUSED");
      assertEquals(1, got.trailer("idempotency-record").size());
      shop.ran(1);
    }
  }

  @Test
  void theRefusalOfTheScopeIsTheCallers() {
    try (Shop shop = new Shop()) {
      shop.scope.set(Status.UNAUTHENTICATED.withDescription("no certificate"));
      assertEquals(Code.UNAUTHENTICATED, shop.charge("order-1").code());
      shop.ran(0);
    }
  }

  @Test
  void anUnguardedMethodNeedsNoKey() {
    try (Shop shop = new Shop(config -> config.unguarded(PaymentsGrpc.getChargeMethod()))) {
      succeeded(shop.call(order(500), WITHIN));
      succeeded(shop.charge("order-1"));
      succeeded(shop.charge("order-1"));
      shop.ran(3);
    }
  }
}

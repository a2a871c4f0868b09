package org.example.idempotency;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.grpcidempotency.v1.GetRequest;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.Context;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

final class CallsTest {
  private final ScheduledExecutorService scheduler = Executors.newScheduledThreadPool(1);
  private final Unreachable channel = new Unreachable();
  private final Calls calls = new Calls(channel, scheduler);

  @AfterEach
  void end() {
    scheduler.shutdownNow();
    channel.shutdownNow();
  }

  private CompletableFuture<?> repeat(Context context, Duration limit) {
    return calls.repeat(context, limit, service -> service.get(GetRequest.getDefaultInstance()));
  }

  @Test
  void theChannelConnectsAgainBeforeARepetition() {
    CompletableFuture<?> result = repeat(Context.ROOT, Duration.ofSeconds(3));
    CompletionException failed = assertThrows(CompletionException.class, result::join);
    assertTrue(((Calls.Failure) failed.getCause()).open);
    assertTrue(channel.calls.get() > 1);
    assertEquals(channel.calls.get() - 1, channel.resets.get());
  }

  @Test
  void aPauseEndsWithTheContext() {
    Context.CancellableContext caller = Context.ROOT.withCancellation();
    CompletableFuture<?> result = repeat(caller, Duration.ofMinutes(1));
    AtomicInteger before = new AtomicInteger();
    scheduler.schedule(
        () -> {
          before.set(channel.calls.get());
          caller.cancel(null); // in the pause of 1.6 s
        },
        2,
        TimeUnit.SECONDS);
    assertThrows(CompletionException.class, result::join);
    assertEquals(before.get(), channel.calls.get());
  }

  @Test
  void aCallEndsWhenItsSchedulerIsClosed() {
    scheduler.shutdownNow();
    CompletableFuture<?> result = repeat(Context.ROOT, Duration.ofMinutes(1));
    assertThrows(CompletionException.class, () -> result.orTimeout(20, TimeUnit.SECONDS).join());
    assertTrue(!(result.handle((answer, failure) -> failure).join() instanceof TimeoutException));
  }

  /** A channel to nowhere that counts. */
  private static final class Unreachable extends ManagedChannel {
    final AtomicInteger calls = new AtomicInteger();
    final AtomicInteger resets = new AtomicInteger();
    private final ManagedChannel channel =
        ServiceChannel.builder("127.0.0.1:1", InsecureChannelCredentials.create()).build();

    @Override
    public void resetConnectBackoff() {
      resets.incrementAndGet();
      channel.resetConnectBackoff();
    }

    @Override
    public <Q, A> ClientCall<Q, A> newCall(MethodDescriptor<Q, A> method, CallOptions options) {
      calls.incrementAndGet();
      return channel.newCall(method, options);
    }

    @Override
    public String authority() {
      return channel.authority();
    }

    @Override
    public ManagedChannel shutdown() {
      channel.shutdown();
      return this;
    }

    @Override
    public ManagedChannel shutdownNow() {
      channel.shutdownNow();
      return this;
    }

    @Override
    public boolean isShutdown() {
      return channel.isShutdown();
    }

    @Override
    public boolean isTerminated() {
      return channel.isTerminated();
    }

    @Override
    public boolean awaitTermination(long timeout, TimeUnit unit) throws InterruptedException {
      return channel.awaitTermination(timeout, unit);
    }
  }
}

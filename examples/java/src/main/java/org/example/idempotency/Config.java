package org.example.idempotency;

import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.ServerCall;
import io.grpc.Status.Code;
import java.time.Duration;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Set;

/**
 * The configuration of a {@link Guard}; make it with {@link #builder}.
 *
 * @param channel of {@link ServiceChannel}
 * @param namespace of the records
 * @param scope the authenticated identity of the caller, whose keys no other caller meets
 * @param unguarded the methods that run without a key
 * @param released by operation, the codes after which a call runs again
 * @param lease of a reservation; it is extended while the handler runs
 * @param maxWait for another attempt before a duplicate is refused
 * @param maxWork after which the Context of the handler ends
 * @param reserveFor how long Reserve is repeated
 * @param settleFor how long Complete and Release are repeated
 */
public record Config(
    ManagedChannel channel,
    String namespace,
    Scope scope,
    Set<String> unguarded,
    Map<String, Set<Code>> released,
    Duration lease,
    Duration maxWait,
    Duration maxWork,
    Duration reserveFor,
    Duration settleFor) {

  /** gRPC makes these itself, also after an effect. */
  private static final Set<Code> NEVER_RELEASED =
      EnumSet.of(
          Code.OK,
          Code.CANCELLED,
          Code.UNKNOWN,
          Code.DEADLINE_EXCEEDED,
          Code.UNIMPLEMENTED,
          Code.INTERNAL,
          Code.UNAVAILABLE);

  /** Checks the configuration. */
  public Config {
    Objects.requireNonNull(channel, "channel");
    Objects.requireNonNull(scope, "scope");
    check(!namespace.isEmpty(), "the namespace is empty");
    unguarded = Set.copyOf(unguarded);
    released = Map.copyOf(released);
    released.forEach(
        (operation, codes) ->
            codes.forEach(
                code ->
                    check(
                        !NEVER_RELEASED.contains(code),
                        code + " of " + operation + " may follow an effect")));
    for (Duration one : new Duration[] {lease, maxWait, maxWork, reserveFor, settleFor}) {
      check(!one.isNegative() && !one.isZero(), "a duration is not above zero");
    }
    check(
        maxWait.compareTo(Times.min(Calls.TRY_LIMIT, reserveFor)) < 0,
        "maxWait has to be under reserveFor and " + Calls.TRY_LIMIT);
    check(
        reserveFor.compareTo(lease.dividedBy(2)) <= 0,
        "reserveFor has to be at most half of the lease");
  }

  /** Returns the scope of a call. */
  @FunctionalInterface
  public interface Scope {
    /** Throws an {@link io.grpc.StatusRuntimeException}, which is the status of the call. */
    String of(ServerCall<?, ?> call, Metadata headers);
  }

  /** All that has no default. */
  public static Builder builder(ManagedChannel channel, String namespace, Scope scope) {
    return new Builder(channel, namespace, scope);
  }

  static String operation(MethodDescriptor<?, ?> method) {
    return "/" + method.getFullMethodName();
  }

  private static void check(boolean holds, String otherwise) {
    if (!holds) {
      throw new IllegalArgumentException(otherwise);
    }
  }

  /** Makes a configuration. */
  public static final class Builder {
    private static final Duration DEFAULT_RESERVE_FOR = Duration.ofSeconds(10);
    private static final Duration DEFAULT_MAX_WAIT = Duration.ofSeconds(2);

    private final ManagedChannel channel;
    private final String namespace;
    private final Scope scope;
    private final Set<String> unguarded = new HashSet<>();
    private final Map<String, Set<Code>> released = new HashMap<>();
    private Duration lease = Duration.ofSeconds(30);
    private Duration maxWait;
    private Duration maxWork = Duration.ofMinutes(5);
    private Duration reserveFor;
    private Duration settleFor = Duration.ofMinutes(1);

    private Builder(ManagedChannel channel, String namespace, Scope scope) {
      this.channel = channel;
      this.namespace = namespace;
      this.scope = scope;
    }

    /** A method without an effect, which runs without a key. */
    public Builder unguarded(MethodDescriptor<?, ?> method) {
      unguarded.add(operation(method));
      return this;
    }

    /**
     * Codes that the handler returns only if nothing happened: not after an effect, and not by
     * passing on the status of a call. Such a call may run again. One of the recorded codes, such
     * as PERMISSION_DENIED, is released instead.
     */
    public Builder released(MethodDescriptor<?, ?> method, Code first, Code... others) {
      released.put(operation(method), Set.copyOf(EnumSet.of(first, others)));
      return this;
    }

    /** Default 30 s. */
    public Builder lease(Duration value) {
      lease = value;
      return this;
    }

    /** Under 5 s and reserveFor; default 2 s, at most half of reserveFor. */
    public Builder maxWait(Duration value) {
      maxWait = value;
      return this;
    }

    /**
     * The handler has no deadline of its caller. A call that it has not closed one lease later has
     * an unknown outcome. Default 5 minutes.
     */
    public Builder maxWork(Duration value) {
      maxWork = value;
      return this;
    }

    /** At most half of the lease; default 10 s, or that half. */
    public Builder reserveFor(Duration value) {
      reserveFor = value;
      return this;
    }

    /** Default 1 minute. */
    public Builder settleFor(Duration value) {
      settleFor = value;
      return this;
    }

    /** Checks the configuration. */
    public Config build() {
      Duration forReserve =
          reserveFor == null ? Times.min(DEFAULT_RESERVE_FOR, lease.dividedBy(2)) : reserveFor;
      Duration wait =
          maxWait == null ? Times.min(DEFAULT_MAX_WAIT, forReserve.dividedBy(2)) : maxWait;
      return new Config(
          channel,
          namespace,
          scope,
          unguarded,
          released,
          lease,
          wait,
          maxWork,
          forReserve,
          settleFor);
    }
  }
}

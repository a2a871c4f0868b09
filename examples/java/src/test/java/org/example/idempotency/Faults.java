package org.example.idempotency;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ForwardingClientCall.SimpleForwardingClientCall;
import io.grpc.ForwardingClientCallListener.SimpleForwardingClientCallListener;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;

/** Faults between the guard and the service. */
final class Faults {
  private Faults() {}

  /** Replaces the status with which the calls of a method end, after the service has done them. */
  static ClientInterceptor atEnd(String name, Function<Status, Status> replace) {
    return new ClientInterceptor() {
      @Override
      public <Q, A> ClientCall<Q, A> interceptCall(
          MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        ClientCall<Q, A> call = next.newCall(method, options);
        if (!name.isEmpty() && !method.getBareMethodName().equals(name)) {
          return call;
        }
        return new SimpleForwardingClientCall<>(call) {
          @Override
          public void start(Listener<A> listener, Metadata headers) {
            super.start(
                new SimpleForwardingClientCallListener<>(listener) {
                  @Override
                  public void onClose(Status status, Metadata trailers) {
                    super.onClose(replace.apply(status), trailers);
                  }
                },
                headers);
          }
        };
      }
    };
  }

  /** The first answers of a method are lost. */
  static ClientInterceptor lost(String name, int losses, AtomicInteger calls) {
    return atEnd(
        name,
        status ->
            calls.incrementAndGet() <= losses
                ? Status.UNAVAILABLE.withDescription("the answer was lost")
                : status);
  }

  /** The service is not there. */
  static ClientInterceptor away(AtomicBoolean away) {
    return new ClientInterceptor() {
      @Override
      public <Q, A> ClientCall<Q, A> interceptCall(
          MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        return away.get() ? new Refused<>(Status.UNAVAILABLE) : next.newCall(method, options);
      }
    };
  }

  /** The service refuses the first call of a method. */
  static ClientInterceptor refusedFirst(String name, Status status, AtomicInteger calls) {
    return new ClientInterceptor() {
      @Override
      public <Q, A> ClientCall<Q, A> interceptCall(
          MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        boolean refused = method.getBareMethodName().equals(name) && calls.incrementAndGet() == 1;
        return refused ? new Refused<>(status) : next.newCall(method, options);
      }
    };
  }

  private static final class Refused<Q, A> extends ClientCall<Q, A> {
    private final Status status;

    private Refused(Status status) {
      this.status = status;
    }

    @Override
    public void start(Listener<A> listener, Metadata headers) {
      listener.onClose(status, new Metadata());
    }

    @Override
    public void request(int messages) {}

    @Override
    public void cancel(String message, Throwable cause) {}

    @Override
    public void halfClose() {}

    @Override
    public void sendMessage(Q message) {}
  }

  /** The calls of a method throw, as an interceptor may. */
  static ClientInterceptor thrown(String name) {
    return new ClientInterceptor() {
      @Override
      public <Q, A> ClientCall<Q, A> interceptCall(
          MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
        if (method.getBareMethodName().equals(name)) {
          throw new IllegalStateException("an interceptor of " + name);
        }
        return next.newCall(method, options);
      }
    };
  }
}

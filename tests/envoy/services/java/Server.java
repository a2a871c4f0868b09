import io.grpc.Context;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.ServerInterceptors;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import java.net.InetSocketAddress;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The health service of grpc-services, and a counter in front of it: a line "executed METHOD KEY" for each
 * execution, whose number is a trailer.
 */
public final class Server {
  private static final Metadata.Key<String> KEY =
      Metadata.Key.of("idempotency-key", Metadata.ASCII_STRING_MARSHALLER);
  private static final Metadata.Key<String> EXECUTION =
      Metadata.Key.of("x-execution", Metadata.ASCII_STRING_MARSHALLER);

  private static final class Counter implements ServerInterceptor {
    private final AtomicLong executions = new AtomicLong();

    @Override
    public <Q, R> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
      String key = headers.get(KEY);
      System.out.println(
          "executed /" + call.getMethodDescriptor().getFullMethodName() + " " + (key == null ? "-" : key));
      String number = Long.toString(executions.incrementAndGet());
      return next.startCall(
          new SimpleForwardingServerCall<Q, R>(call) {
            @Override
            public void close(Status status, Metadata trailers) {
              trailers.put(EXECUTION, number);
              super.close(status, trailers);
            }
          },
          headers);
    }
  }

  public static void main(String[] args) throws Exception {
    HealthStatusManager health = new HealthStatusManager();
    io.grpc.Server server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", 0))
            .addService(ServerInterceptors.intercept(health.getHealthService(), new Counter()))
            .build()
            .start();
    System.out.println("serving on 127.0.0.1:" + server.getPort());
    server.awaitTermination();
  }
}

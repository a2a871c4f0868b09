import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** A unary call of grpc-java with bytes: Client TARGET METHOD KEY REQUEST_HEX. Prints the reply as JSON. */
public final class Client {
  private static final MethodDescriptor.Marshaller<byte[]> BYTES =
      new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] value) {
          return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
          try {
            return stream.readAllBytes();
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        }
      };

  private static Metadata.Key<String> ascii(String name) {
    return Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER);
  }

  private static final class Reply extends ClientCall.Listener<byte[]> {
    final CompletableFuture<String> json = new CompletableFuture<>();
    private byte[] body = new byte[0];

    @Override
    public void onMessage(byte[] message) {
      body = message;
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      String message = status.getDescription() == null ? "" : status.getDescription();
      String execution = trailers.get(ascii("x-execution"));
      json.complete(
          String.format(
              "{\"code\": %d, \"message\": \"%s\", \"reply\": \"%s\", \"execution\": \"%s\", \"replayed\": %b}",
              status.getCode().value(),
              message.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n"),
              HexFormat.of().formatHex(body),
              execution == null ? "" : execution,
              trailers.containsKey(ascii("idempotency-replayed"))));
    }
  }

  public static void main(String[] args) throws Exception {
    ManagedChannel channel =
        NettyChannelBuilder.forTarget(args[0]).usePlaintext().proxyDetector(address -> null).build();
    MethodDescriptor<byte[], byte[]> method =
        MethodDescriptor.newBuilder(BYTES, BYTES)
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName(args[1].substring(1))
            .build();
    Metadata headers = new Metadata();
    headers.put(ascii("idempotency-key"), args[2]);
    headers.put(ascii("x-tenant"), "shop");
    Reply reply = new Reply();
    ClientCall<byte[], byte[]> call =
        channel.newCall(method, CallOptions.DEFAULT.withDeadlineAfter(20, TimeUnit.SECONDS));
    call.start(reply, headers);
    call.request(2);
    call.sendMessage(HexFormat.of().parseHex(args[3]));
    call.halfClose();
    System.out.println(reply.json.get());
    channel.shutdownNow();
  }
}

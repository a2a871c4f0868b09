package org.example.idempotency;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.ByteString;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.DescriptorValidationException;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.ExtensionRegistry;
import com.google.protobuf.ListValue;
import com.google.protobuf.Message;
import com.google.protobuf.Value;
import dev.grpcidempotency.v1.Options;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import org.example.payments.v1.ChargeRequest;
import org.junit.jupiter.api.Test;

final class FingerprintsTest {
  /** Vectors whose unknown fields of one number have several wire types. */
  private static final Set<String> WITHOUT_ORDER = Set.of("unknown");

  private static final int LEAST_VECTORS = 40;

  private final ExtensionRegistry extensions = ExtensionRegistry.newInstance();
  private final Map<String, FileDescriptor> files = new HashMap<>();
  private final Map<String, Descriptor> messages = new HashMap<>();

  /** The vectors of docs/fingerprint.md; test.sh makes the descriptors of their messages. */
  @Test
  void vectors() throws Exception {
    String vectors = System.getenv("FINGERPRINT_VECTORS");
    String descriptors = System.getenv("FINGERPRINT_DESCRIPTORS");
    assumeTrue(vectors != null && descriptors != null, "no vectors");
    load(Path.of(descriptors));
    int tested = 0;
    for (JsonElement element :
        JsonParser.parseString(Files.readString(Path.of(vectors)))
            .getAsJsonObject()
            .getAsJsonArray("vectors")) {
      JsonObject vector = element.getAsJsonObject();
      if (vector.has("key_field") || vector.has("metadata")) {
        continue;
      }
      tested++;
      for (String member : new String[] {"wire", "canonical"}) {
        test(vector, member);
      }
    }
    assertTrue(tested >= LEAST_VECTORS, tested + " vectors");
  }

  private void test(JsonObject vector, String member) throws IOException {
    String name = vector.get("name").getAsString() + " of " + member;
    Message request =
        DynamicMessage.parseFrom(
            messages.get(vector.get("message").getAsString()),
            HexFormat.of().parseHex(vector.get(member).getAsString()),
            extensions);
    String method = vector.get("method").getAsString();
    if (WITHOUT_ORDER.contains(vector.get("name").getAsString())) {
      assertThrows(IllegalArgumentException.class, () -> Fingerprints.of(method, request), name);
      return;
    }
    assertEquals(
        vector.get("digest").getAsString(),
        HexFormat.of().formatHex(Fingerprints.of(method, request).getDigest().toByteArray()),
        name);
  }

  private void load(Path path) throws IOException, DescriptorValidationException {
    ExtensionRegistry options = ExtensionRegistry.newInstance();
    Options.registerAllExtensions(options);
    FileDescriptorSet set = FileDescriptorSet.parseFrom(Files.readAllBytes(path), options);
    for (FileDescriptorProto proto : set.getFileList()) { // each after its imports
      FileDescriptor file =
          FileDescriptor.buildFrom(
              proto,
              proto.getDependencyList().stream().map(files::get).toArray(FileDescriptor[]::new));
      files.put(proto.getName(), file);
      file.getMessageTypes().forEach(message -> messages.put(message.getFullName(), message));
      for (FieldDescriptor extension : file.getExtensions()) {
        if (extension.getJavaType() == FieldDescriptor.JavaType.MESSAGE) {
          extensions.add(extension, DynamicMessage.getDefaultInstance(extension.getMessageType()));
        } else {
          extensions.add(extension);
        }
      }
    }
  }

  /** As of generated code; its digest is that of the same message without its class. */
  @Test
  void generatedMessages() throws Exception {
    ChargeRequest.Builder request = ChargeRequest.newBuilder().setAccount("alice");
    request.putNotes("\uFFFD", "a").putNotes("\uD83D\uDE00", "b").putNotes("", "");
    DynamicMessage dynamic =
        DynamicMessage.parseFrom(ChargeRequest.getDescriptor(), request.build().toByteString());
    assertEquals(Fingerprints.of("/a/B", dynamic), Fingerprints.of("/a/B", request.build()));
    // In the order of UTF-8, which is not that of Java's strings.
    assertEquals(
        ByteString.copyFrom(
            HexFormat.of()
                .parseHex(
                    "0a05616c696365" // account
                        + "1a040a001200"
                        + "1a080a03efbfbd120161"
                        + "1a090a04f09f9880120162")),
        ByteString.copyFrom(CanonicalForm.of(request.build())));
  }

  @Test
  void depth() {
    Value.Builder value = Value.newBuilder();
    for (int level = 0; level < 50; level++) { // two levels each
      value = Value.newBuilder().setListValue(ListValue.newBuilder().addValues(value));
    }
    Message deepest = value.build();
    Fingerprints.of("/a/B", deepest);
    Message deeper = ListValue.newBuilder().addValues(value).build();
    assertThrows(IllegalArgumentException.class, () -> Fingerprints.of("/a/B", deeper));
  }
}

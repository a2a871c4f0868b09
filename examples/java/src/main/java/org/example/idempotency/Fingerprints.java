package org.example.idempotency;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import dev.grpcidempotency.v1.Fingerprint;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** Fingerprints of requests. */
public final class Fingerprints {
  private Fingerprints() {}

  /**
   * Version 1 of docs/fingerprint.md, without a key field and without metadata. Equal requests get
   * equal fingerprints from each build and in each language; the bytes of {@code toByteString}
   * depend on the order of map entries.
   *
   * @throws IllegalArgumentException if the request has none: it is nested too deeply, or has
   *     unknown fields whose order Java does not keep
   */
  public static Fingerprint of(String method, Message request) {
    byte[] name = method.getBytes(StandardCharsets.UTF_8);
    MessageDigest hash = sha256();
    hash.update(ByteBuffer.allocate(Integer.BYTES).putInt(name.length).flip());
    hash.update(name);
    hash.update(CanonicalForm.of(request));
    return Fingerprint.newBuilder()
        .setVersion(1)
        .setDigest(ByteString.copyFrom(hash.digest()))
        .build();
  }

  private static MessageDigest sha256() {
    try {
      return MessageDigest.getInstance("SHA-256");
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("each Java platform has SHA-256", e);
    }
  }
}

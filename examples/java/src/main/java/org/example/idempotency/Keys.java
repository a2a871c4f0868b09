package org.example.idempotency;

import io.grpc.Metadata;
import io.grpc.Status.Code;
import io.grpc.StatusRuntimeException;
import java.util.HashSet;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;

/** The key of a call (docs/keys.md). */
final class Keys {
  private static final Metadata.Key<String> ENTRY = Refusal.ascii("idempotency-key");
  private static final Pattern VALID = Pattern.compile("[!-~]{1,255}");
  private static final Pattern QUOTED = Pattern.compile("\"((?:[^\"\\\\]|\\\\[\"\\\\])*+)\"");
  private static final Pattern UUID =
      Pattern.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}");

  private Keys() {}

  /**
   * Returns the key.
   *
   * @throws StatusRuntimeException the refusal of a call without one valid key
   */
  static String of(Metadata headers) {
    Iterable<String> values = headers.getAll(ENTRY);
    if (values == null) {
      throw refused("KEY_MISSING", "send an idempotency-key");
    }
    Set<Optional<String>> keys = new HashSet<>();
    values.forEach(value -> keys.add(parsed(value)));
    Optional<String> key = keys.iterator().next();
    if (keys.size() > 1 || key.isEmpty()) {
      throw refused("KEY_INVALID", "the idempotency-key is malformed, or there are several");
    }
    return key.get();
  }

  private static StatusRuntimeException refused(String reason, String message) {
    return new Refusal(Code.INVALID_ARGUMENT, reason, message).error("");
  }

  /** The key of an entry, bare or quoted; UUIDs in lower case. */
  private static Optional<String> parsed(String value) {
    String key = value;
    if (value.startsWith("\"")) {
      var quoted = QUOTED.matcher(value);
      if (!quoted.matches()) {
        return Optional.empty();
      }
      key = quoted.group(1).replaceAll("\\\\(.)", "$1");
    } else if (value.indexOf('"') >= 0 || value.indexOf(',') >= 0) {
      return Optional.empty();
    }
    if (!VALID.matcher(key).matches()) {
      return Optional.empty();
    }
    return Optional.of(UUID.matcher(key).matches() ? key.toLowerCase(Locale.ROOT) : key);
  }
}

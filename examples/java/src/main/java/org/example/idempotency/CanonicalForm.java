package org.example.idempotency;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.Descriptors.EnumValueDescriptor;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import com.google.protobuf.UnknownFieldSet;
import com.google.protobuf.WireFormat;
import dev.grpcidempotency.v1.FieldPolicy;
import dev.grpcidempotency.v1.Options;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.ListIterator;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;

/**
 * The canonical form of docs/fingerprint.md. It is written from its end: the length of a message is
 * known then when it is written, and nothing is copied again for each level.
 */
final class CanonicalForm {
  /** That of docs/fingerprint.md; a parser may permit deeper messages. */
  private static final int MAX_DEPTH = 100;

  private static final int FIRST_ROOM = 256;
  private static final int MAX_VARINT_BYTES = 10;

  private byte[] room = new byte[FIRST_ROOM];
  private int size; // of what is written, at the end of the room

  private CanonicalForm() {}

  /**
   * Returns the canonical form of a message.
   *
   * @throws IllegalArgumentException if it has none
   */
  static byte[] of(Message message) {
    CanonicalForm form = new CanonicalForm();
    form.message(message, 0);
    return Arrays.copyOfRange(form.room, form.room.length - form.size, form.room.length);
  }

  private void message(Message message, int depth) {
    checkDepth(depth);
    TreeMap<Integer, FieldDescriptor> known = new TreeMap<>();
    for (FieldDescriptor field : message.getAllFields().keySet()) {
      if (isWritten(field, message)) {
        known.put(field.getNumber(), field);
      }
    }
    Map<Integer, UnknownFieldSet.Field> unknown = message.getUnknownFields().asMap();
    TreeMap<Integer, Object> numbers = new TreeMap<>(known);
    numbers.putAll(unknown);
    for (int number : numbers.descendingKeySet()) {
      if (unknown.containsKey(number)) {
        unknown(number, unknown.get(number), depth);
      }
      if (known.containsKey(number)) {
        field(known.get(number), message.getField(known.get(number)), depth);
      }
    }
  }

  private static boolean isWritten(FieldDescriptor field, Message message) {
    if (field.getOptions().getExtension(Options.fingerprint)
        == FieldPolicy.Fingerprint.FINGERPRINT_EXCLUDE) {
      return false;
    }
    // A DynamicMessage has defaults that were on the wire. Double.equals compares bits.
    return field.isRepeated()
        || field.hasPresence()
        || !message.getField(field).equals(field.getDefaultValue());
  }

  private void field(FieldDescriptor field, Object value, int depth) {
    if (field.isMapField()) {
      entries(field, (List<?>) value, depth);
    } else if (!field.isRepeated()) {
      single(field, value, depth);
    } else if (field.isPackable()) {
      int before = size;
      backwards((List<?>) value, element -> scalar(field, element));
      length(before);
      tag(field.getNumber(), WireFormat.WIRETYPE_LENGTH_DELIMITED);
    } else {
      backwards((List<?>) value, element -> single(field, element, depth));
    }
  }

  private void entries(FieldDescriptor field, List<?> entries, int depth) {
    checkDepth(depth + 1);
    FieldDescriptor keyField = field.getMessageType().findFieldByNumber(1);
    FieldDescriptor valueField = field.getMessageType().findFieldByNumber(2);
    TreeMap<Object, Object> sorted = new TreeMap<>(keyOrder(keyField));
    for (Object element : entries) { // the last one of a key counts
      Message entry = (Message) element;
      sorted.put(entry.getField(keyField), entry.getField(valueField));
    }
    for (Map.Entry<Object, Object> entry : sorted.descendingMap().entrySet()) {
      int before = size;
      single(valueField, entry.getValue(), depth + 1);
      single(keyField, entry.getKey(), depth + 1);
      length(before);
      tag(field.getNumber(), WireFormat.WIRETYPE_LENGTH_DELIMITED);
    }
  }

  /** One value with its tag. */
  private void single(FieldDescriptor field, Object value, int depth) {
    int number = field.getNumber();
    switch (field.getType()) {
      case MESSAGE -> {
        int before = size;
        message((Message) value, depth + 1);
        length(before);
      }
      case GROUP -> {
        tag(number, WireFormat.WIRETYPE_END_GROUP);
        message((Message) value, depth + 1);
      }
      default -> scalar(field, value);
    }
    tag(number, field.getLiteType().getWireType());
  }

  private void scalar(FieldDescriptor field, Object value) {
    switch (field.getType()) {
      case BOOL -> varint((Boolean) value ? 1 : 0);
      case ENUM -> varint(((EnumValueDescriptor) value).getNumber());
      case INT32, INT64, UINT64 -> varint(number(value));
      case UINT32 -> varint(number(value) & 0xFFFFFFFFL);
      case SINT32 -> varint(CodedOutputStream.encodeZigZag32((Integer) value) & 0xFFFFFFFFL);
      case SINT64 -> varint(CodedOutputStream.encodeZigZag64((Long) value));
      case FIXED32, SFIXED32 -> fixed(number(value), Integer.BYTES);
      case FIXED64, SFIXED64 -> fixed(number(value), Long.BYTES);
      case FLOAT -> fixed(Float.floatToIntBits((Float) value), Integer.BYTES); // one NaN
      case DOUBLE -> fixed(Double.doubleToLongBits((Double) value), Long.BYTES);
      case STRING -> {
        String text = (String) value;
        // Proto2 permits other bytes, which Java's strings do not keep.
        if (!field.needsUtf8Check() && text.indexOf('\uFFFD') >= 0) {
          throw new IllegalArgumentException(field.getFullName() + " may not be UTF-8");
        }
        delimited(utf8(text));
      }
      case BYTES -> delimited(((ByteString) value).toByteArray());
      default -> throw new IllegalArgumentException("a field of the type " + field.getType());
    }
  }

  /**
   * The unknown fields of one number. Java keeps their order only within a wire type, so that
   * fields of several types have no canonical form.
   */
  private void unknown(int number, UnknownFieldSet.Field field, int depth) {
    long types =
        List.of(
                field.getVarintList(),
                field.getFixed32List(),
                field.getFixed64List(),
                field.getLengthDelimitedList(),
                field.getGroupList())
            .stream()
            .filter(values -> !values.isEmpty())
            .count();
    if (types > 1) {
      throw new IllegalArgumentException("the unknown field " + number + " has several wire types");
    }
    backwards(
        field.getVarintList(),
        value -> {
          varint(value);
          tag(number, WireFormat.WIRETYPE_VARINT);
        });
    backwards(
        field.getFixed32List(),
        value -> {
          fixed(value, Integer.BYTES);
          tag(number, WireFormat.WIRETYPE_FIXED32);
        });
    backwards(
        field.getFixed64List(),
        value -> {
          fixed(value, Long.BYTES);
          tag(number, WireFormat.WIRETYPE_FIXED64);
        });
    backwards(
        field.getLengthDelimitedList(),
        value -> {
          delimited(value.toByteArray());
          tag(number, WireFormat.WIRETYPE_LENGTH_DELIMITED);
        });
    backwards(field.getGroupList(), group -> unknownGroup(number, group, depth + 1));
  }

  private void unknownGroup(int number, UnknownFieldSet group, int depth) {
    checkDepth(depth);
    tag(number, WireFormat.WIRETYPE_END_GROUP);
    TreeMap<Integer, UnknownFieldSet.Field> fields = new TreeMap<>(group.asMap());
    fields.descendingMap().forEach((inner, field) -> unknown(inner, field, depth));
    tag(number, WireFormat.WIRETYPE_START_GROUP);
  }

  private void tag(int number, int wireType) {
    varint(((long) number << 3) | wireType);
  }

  private void delimited(byte[] value) {
    bytes(value, value.length);
    varint(value.length);
  }

  /** Writes the number of bytes that were written since the size was {@code before}. */
  private void length(int before) {
    varint(size - before);
  }

  private void varint(long value) {
    byte[] bytes = new byte[MAX_VARINT_BYTES];
    int count = 0;
    for (long rest = value; rest != 0 || count == 0; rest >>>= 7) {
      bytes[count++] = (byte) ((rest & 0x7F) | (rest >>> 7 == 0 ? 0 : 0x80));
    }
    bytes(bytes, count);
  }

  private void fixed(long value, int count) {
    byte[] bytes = new byte[count];
    for (int i = 0; i < count; i++) {
      bytes[i] = (byte) (value >>> (Byte.SIZE * i));
    }
    bytes(bytes, count);
  }

  private void bytes(byte[] value, int count) {
    int larger = Math.addExact(size, count);
    if (larger > room.length) {
      byte[] next = new byte[(int) Math.min(Integer.MAX_VALUE - 8L, 2L * larger)];
      System.arraycopy(room, room.length - size, next, next.length - size, size);
      room = next;
    }
    System.arraycopy(value, 0, room, room.length - larger, count);
    size = larger;
  }

  private static <T> void backwards(List<T> values, Consumer<? super T> write) {
    for (ListIterator<T> at = values.listIterator(values.size()); at.hasPrevious(); ) {
      write.accept(at.previous());
    }
  }

  private static Comparator<Object> keyOrder(FieldDescriptor field) {
    return switch (field.getType()) {
      case BOOL -> Comparator.comparing(key -> (Boolean) key);
      case STRING -> (a, b) -> Arrays.compareUnsigned(utf8(a), utf8(b)); // not String.compareTo
      case UINT32, FIXED32, UINT64, FIXED64 ->
          (a, b) -> Long.compareUnsigned(number(a), number(b)); // also of 32 bits, with their sign
      default -> Comparator.comparingLong(CanonicalForm::number);
    };
  }

  private static byte[] utf8(Object text) {
    return ((String) text).getBytes(StandardCharsets.UTF_8);
  }

  private static void checkDepth(int depth) {
    if (depth > MAX_DEPTH) {
      throw new IllegalArgumentException("the message is nested too deeply");
    }
  }

  private static long number(Object value) {
    return ((Number) value).longValue();
  }
}

package org.example.idempotency;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.MessageLite;
import com.google.protobuf.Parser;
import java.io.IOException;
import java.io.OutputStream;

/**
 * A response as its recorded bytes. Parsed and written again, they may become others: Java orders
 * unknown fields anew.
 */
record RecordedBody(ByteString bytes) implements MessageLite {
  @Override
  public int getSerializedSize() {
    return bytes.size();
  }

  @Override
  public void writeTo(OutputStream output) throws IOException {
    bytes.writeTo(output);
  }

  @Override
  public void writeTo(CodedOutputStream output) throws IOException {
    output.write(bytes.asReadOnlyByteBuffer());
  }

  @Override
  public void writeDelimitedTo(OutputStream output) throws IOException {
    CodedOutputStream coded = CodedOutputStream.newInstance(output);
    coded.writeByteArrayNoTag(toByteArray());
    coded.flush();
  }

  @Override
  public ByteString toByteString() {
    return bytes;
  }

  @Override
  public byte[] toByteArray() {
    return bytes.toByteArray();
  }

  @Override
  public boolean isInitialized() {
    return true;
  }

  @Override
  public MessageLite getDefaultInstanceForType() {
    return new RecordedBody(ByteString.EMPTY);
  }

  @Override
  public Parser<? extends MessageLite> getParserForType() {
    throw new UnsupportedOperationException("a recorded body is only sent");
  }

  @Override
  public Builder newBuilderForType() {
    throw new UnsupportedOperationException("a recorded body is only sent");
  }

  @Override
  public Builder toBuilder() {
    throw new UnsupportedOperationException("a recorded body is only sent");
  }
}

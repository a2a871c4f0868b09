package org.example.idempotency;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;

/** A serve-testing for all tests; the program is $IDEMPOTENCYD, or that of PATH. */
final class Daemon {
  private static final String TARGET = start();

  private Daemon() {}

  static String target() {
    return TARGET;
  }

  private static String start() {
    String program = System.getenv().getOrDefault("IDEMPOTENCYD", "idempotencyd");
    try {
      // It ends with its standard input, which this process holds.
      Process process =
          new ProcessBuilder(
                  program, "serve-testing", "--exit_with_parent=false", "--exit_with_stdin")
              .redirectError(ProcessBuilder.Redirect.INHERIT)
              .start();
      Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
      String line =
          new BufferedReader(
                  new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))
              .readLine();
      if (line == null) {
        throw new IllegalStateException(program + " ended");
      }
      return line.substring(line.lastIndexOf(' ') + 1);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}

package org.example.idempotency;

import dev.grpcidempotency.v1.RecordKey;

/**
 * A reservation.
 *
 * @param leaseEnd on the clock of {@link System#nanoTime}
 */
record Held(RecordKey key, String token, String record, long leaseEnd) {}

package org.example.idempotency;

import dev.grpcidempotency.v1.LeaseExpiry;
import dev.grpcidempotency.v1.OutcomeUnknown;
import dev.grpcidempotency.v1.Record;
import dev.grpcidempotency.v1.Reserved;
import java.time.Instant;

/**
 * Grants behind which an earlier attempt may have had its effect. Only a record of another guard
 * has them: of one that runs unknown outcomes again, or looks them up in a ledger that this guard
 * lacks.
 */
final class Grants {
  static final String REASON = "an earlier attempt of another guard may have run";

  private Grants() {}

  static boolean mayHaveRun(Reserved reserved) {
    return reserved.getRecovering()
        || switch (reserved.getPreviousAttempt()) {
          case PREVIOUS_ATTEMPT_LEASE_EXPIRED, PREVIOUS_ATTEMPT_OUTCOME_UNKNOWN -> true;
          default -> false;
        };
  }

  /**
   * Whether the record is of a guard that gives a reservation back also after an unknown outcome.
   */
  static boolean mayHaveRun(Record record) {
    return record.getOnLeaseExpiry() != LeaseExpiry.LEASE_EXPIRY_REQUIRE_RECOVERY;
  }

  static Refusal refusal(Reserved reserved) {
    return Refusal.outcomeUnknown(
        OutcomeUnknown.newBuilder()
            .setCause(OutcomeUnknown.Cause.CAUSE_RELEASED)
            .setReason(REASON)
            .setAttempt(reserved.getAttempt())
            .setSince(Times.proto(Instant.now()))
            .build());
  }
}

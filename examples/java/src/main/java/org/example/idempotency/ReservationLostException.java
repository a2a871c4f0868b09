package org.example.idempotency;

/**
 * The cancellation cause of a handler's Context once its reservation is lost or its lease is over.
 * Begin no further effect then. Answer with OK for an effect that took place: it is recorded unless
 * another attempt was granted.
 */
public final class ReservationLostException extends Exception {
  private static final long serialVersionUID = 1;

  ReservationLostException(String message, Throwable cause) {
    super(message, cause);
  }
}

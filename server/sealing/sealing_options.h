#ifndef IDEMPOTENCY_SERVER_SEALING_SEALING_OPTIONS_H_
#define IDEMPOTENCY_SERVER_SEALING_SEALING_OPTIONS_H_

#include <string>

namespace idempotency::internal {

// How a service seals what it stores (docs/sealing.md). Has no secrets.
struct SealingOptions {
  // The key ring's file; empty: nothing is sealed.
  std::string key_ring;
  // Rows that were stored unsealed are read, and rows are stored unsealed until the first key
  // seals: for the time until the last record from before is forgotten since then.
  bool accept_unsealed = false;
};

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_SERVER_SEALING_SEALING_OPTIONS_H_

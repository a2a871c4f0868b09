#ifndef IDEMPOTENCY_EXAMPLES_PAYMENTS_SERVER_SETUP_H_
#define IDEMPOTENCY_EXAMPLES_PAYMENTS_SERVER_SETUP_H_

#include <signal.h>

#include <memory>
#include <string>

#include "absl/flags/declare.h"
#include "absl/time/time.h"

#include "examples/payments/ledger.h"

ABSL_DECLARE_FLAG(std::string, listen);
ABSL_DECLARE_FLAG(absl::Duration, charge_delay);

namespace payments {

// The start of any payments server. Called once, by main.

// Reads the command line, sends the log to stderr, and blocks SIGINT and
// SIGTERM for sigwait; every thread that is started later inherits the mask.
sigset_t StartProgram(int argc, char** argv);

// The ledger of --database with the --accounts. Exits the process with status 1 if there is none.
std::unique_ptr<Ledger> OpenLedgerOrExit();

}  // namespace payments

#endif  // IDEMPOTENCY_EXAMPLES_PAYMENTS_SERVER_SETUP_H_

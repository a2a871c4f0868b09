#include "tests/support/pgbouncer_process.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace idempotency::internal::testing {
namespace {

// In the name of the socket.
constexpr int kPort = 6432;

}  // namespace

absl::StatusOr<std::unique_ptr<PgbouncerProcess>> PgbouncerProcess::Start(
    const std::string& server, const std::string& pool_mode) {
  std::unique_ptr<PgbouncerProcess> pooler(new PgbouncerProcess());  // private constructor
  const std::string settings = pooler->files_.Write(
      "pgbouncer.ini",
      absl::StrCat("[databases]\n* = ", server,
                   "\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = ", pooler->files_.path(),
                   "\nlisten_port = ", kPort, "\nauth_type = any\npool_mode = ", pool_mode,
                   "\nignore_startup_parameters = extra_float_digits\n",
                   geteuid() == 0 ? "user = postgres\n" : ""));
  auto process = Process::Start({"/bin/sh", "-c", "exec pgbouncer \"$1\" 2>&1", "sh", settings});
  if (!process.ok()) return process.status();
  pooler->process_ = *std::move(process);
  const auto listens = pooler->process_->WaitForText("listening on unix:");
  if (!listens.ok()) return listens.status();
  return pooler;
}

std::string PgbouncerProcess::Url(const std::string& user, const std::string& database) const {
  return absl::StrCat("postgresql://", user, "@/", database,
                      "?host=", absl::StrReplaceAll(files_.path(), {{"/", "%2F"}}),
                      "&port=", kPort);
}

}  // namespace idempotency::internal::testing

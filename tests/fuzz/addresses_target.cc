// The address to listen on, and the address of the store: texts of the operator's, which may
// contain a password.
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "core/absl_view.h"
#include "server/process/network_address.h"
#include "server/service/store_address.h"
#include "server/store/postgres/connection/conninfo.h"
#include "tests/fuzz/property.h"
#include "tests/fuzz/targets.h"

namespace idempotency::internal::fuzz {
namespace {

constexpr absl::string_view kPassword = "correct-horse-battery";

void ReadNetworkAddress(absl::string_view text) {
  const absl::StatusOr<NetworkAddress> address = NetworkAddress::Parse(text);
  if (!address.ok()) {
    Require(address.status().code() == absl::StatusCode::kInvalidArgument, "it is refused");
    return;
  }
  Require(address->host.empty() != address->unix_path.empty(), "a host or a path");
  const absl::StatusOr<NetworkAddress> again = NetworkAddress::Parse(address->ToString());
  Require(again.ok() && again->host == address->host && again->port == address->port &&
              again->unix_path == address->unix_path,
          "an address reads as it is written");
  Require(again->IsLocal() == address->IsLocal(), "and is as local as it was");
}

void ReadStoreAddress(absl::string_view text) {
  const absl::StatusOr<StoreAddress> address = StoreAddress::Parse(text);
  if (!address.ok()) {
    Require(!absl::StrContains(address.status().message(), kPassword),
            "no error contains a password");
    return;
  }
  Require(!address->location.empty(), "a store is somewhere");
  Require(!absl::StrContains(address->Display(), kPassword), "no log contains a password");
  if (address->kind != StoreAddress::Kind::kPostgres) return;
  PostgresOptions options;
  options.url = address->location;
  const absl::StatusOr<std::string> conninfo = PostgresConninfo(options);
  Require(conninfo.ok(), "what was accepted can be connected with");
}

}  // namespace

void Addresses(std::string_view input) {
  const absl::string_view text = AbslView(input);
  ReadNetworkAddress(text);
  // One that the input contains itself may be anything.
  if (absl::StrContains(text, kPassword)) return;
  ReadStoreAddress(text);
  ReadStoreAddress(absl::StrCat("postgresql://user:", kPassword, "@", text));
  ReadStoreAddress(absl::StrCat("postgresql://host/database?password=", kPassword, "&", text));
}

}  // namespace idempotency::internal::fuzz

#include "ctl/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/json_util.h"

namespace idempotency::internal {
namespace {

constexpr absl::string_view kNotConfirmed = "idempotencyctl/not-confirmed";

void Write(std::FILE* stream, absl::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

void Terminal::Print(absl::string_view text) { Write(streams_.out, text); }

void Terminal::PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string json;
  // Fails only for types that a message of this program does not contain.
  if (!google::protobuf::util::MessageToJsonString(message, &json, options).ok()) json = "{}";
  Print(json + "\n");
}

void Terminal::Note(absl::string_view text) { Write(streams_.err, text); }

bool Terminal::Confirm(absl::string_view question) {
  if (isatty(fileno(streams_.in)) == 0) return false;
  Note(absl::StrCat(question, " [y/N] "));
  std::array<char, 64> line{};
  if (std::fgets(line.data(), line.size(), streams_.in) == nullptr) return false;
  const absl::string_view answer = absl::StripAsciiWhitespace(line.data());
  return absl::EqualsIgnoreCase(answer, "y") || absl::EqualsIgnoreCase(answer, "yes");
}

std::size_t Terminal::width() const {
  winsize size{};
  if (ioctl(fileno(streams_.out), TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

absl::Time Terminal::Now() const { return absl::Now(); }

absl::Status NotConfirmed(absl::string_view message) {
  absl::Status status = absl::CancelledError(message);
  status.SetPayload(kNotConfirmed, absl::Cord());
  return status;
}

bool IsNotConfirmed(const absl::Status& status) {
  return status.GetPayload(kNotConfirmed).has_value();
}

}  // namespace idempotency::internal

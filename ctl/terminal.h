#ifndef IDEMPOTENCY_CTL_TERMINAL_H_
#define IDEMPOTENCY_CTL_TERMINAL_H_

#include <cstddef>
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "google/protobuf/message.h"

namespace idempotency::internal {

// Where a command reads answers and writes results: stdin, stdout and stderr. Thread-compatible.
class Terminal {
 public:
  struct Streams {
    std::FILE* in;
    std::FILE* out;
    std::FILE* err;
  };

  explicit Terminal(const Streams& streams) : streams_(streams) {}
  virtual ~Terminal() = default;
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  // A result, to stdout. `text` is printable.
  void Print(absl::string_view text);
  // A message as one line of JSON with the names of the proto, to stdout.
  void PrintJson(const google::protobuf::Message& message);
  // Progress and questions, to stderr.
  void Note(absl::string_view text);

  // True for "yes" or "y" on a terminal. False, without a question, where stdin is no terminal.
  bool Confirm(absl::string_view question);

  // The columns of the terminal; 0 where stdout is none, so that nothing is cut.
  std::size_t width() const;
  // By this machine's clock, for ages.
  virtual absl::Time Now() const;

 private:
  const Streams streams_;
};

// The result of a command whose question was not answered with yes: nothing was written. No server
// can answer with it.
absl::Status NotConfirmed(absl::string_view message);
bool IsNotConfirmed(const absl::Status& status);

}  // namespace idempotency::internal

#endif  // IDEMPOTENCY_CTL_TERMINAL_H_

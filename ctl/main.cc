// idempotencyctl: an operator's view of the records of an idempotencyd.
#include <cstdio>
#include <vector>

#include "absl/strings/string_view.h"

#include "ctl/program.h"
#include "ctl/terminal.h"

int main(int argc, char** argv) {
  // A caller of exec may leave out even the program's name.
  const int first = argc > 0 ? 1 : 0;
  const std::vector<absl::string_view> args(argv + first, argv + argc);
  idempotency::internal::Terminal terminal({stdin, stdout, stderr});
  return static_cast<int>(idempotency::internal::RunProgram(args, terminal));
}

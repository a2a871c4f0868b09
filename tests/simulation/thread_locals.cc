#include "tests/simulation/thread_locals.h"

#include <link.h>

#include <algorithm>
#include <cstddef>

namespace idempotency::internal::simulation {
namespace {

// The location of the program's variables, and their initial values.
struct Block {
  char* begin = nullptr;
  std::size_t bytes = 0;
  const char* image = nullptr;
  // The rest is zero.
  std::size_t image_bytes = 0;
};

// dl_iterate_phdr() reports the program first, then its libraries.
int FindProgram(dl_phdr_info* info, std::size_t, void* found) {
  auto& block = *static_cast<Block*>(found);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_TLS) continue;
    block.begin = static_cast<char*>(info->dlpi_tls_data);
    block.bytes = header.p_memsz;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the loader returns addresses as numbers.
    block.image = reinterpret_cast<const char*>(info->dlpi_addr + header.p_vaddr);
    block.image_bytes = header.p_filesz;
  }
  return 1;
}

const Block& Program() {
  static const Block block = [] {
    Block found;
    dl_iterate_phdr(FindProgram, &found);
    return found;
  }();
  return block;
}

}  // namespace

ThreadLocals::ThreadLocals() : bytes_(Program().bytes) {
  std::copy_n(Program().image, Program().image_bytes, bytes_.begin());
}

void ThreadLocals::Exchange() { std::swap_ranges(bytes_.begin(), bytes_.end(), Program().begin); }

}  // namespace idempotency::internal::simulation

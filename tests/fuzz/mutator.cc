#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace idempotency::internal::fuzz {
namespace {

constexpr std::size_t kMaxSize = 4096;
constexpr std::size_t kMaxPiece = 64;
// Values at which lengths, tags and signs change their meaning.
constexpr char kTelling[] = {'\0', '\1', '\x0a', '\x12', ' ',    '"',    '\'',
                             ',',  '-',  '/',    ':',    ';',    '=',    '?',
                             '@',  '\\', '{',    '}',    '\x7f', '\x80', '\xff'};

}  // namespace

Mutator::Mutator(std::vector<std::string> inputs, std::uint64_t seed)
    : inputs_(std::move(inputs)), random_(seed) {}

std::size_t Mutator::Below(std::size_t bound) { return bound == 0 ? 0 : random_() % bound; }

void Mutator::ChangeBit(std::string& input) {
  if (input.empty()) return;
  char& byte = input[Below(input.size())];
  byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << Below(8)));
}

void Mutator::ChangeByte(std::string& input) {
  const char byte = kTelling[Below(std::size(kTelling))];
  const std::size_t at = Below(input.size() + 1);
  if (at == input.size() || Below(2) == 0) {
    input.insert(at, 1, byte);
  } else {
    input[at] = byte;
  }
}

void Mutator::Cut(std::string& input) {
  const std::size_t at = Below(input.size());
  input.erase(at, Below(8) == 0 ? std::string::npos : 1 + Below(kMaxPiece));
}

void Mutator::Double(std::string& input) {
  const std::size_t at = Below(input.size());
  input.insert(Below(input.size() + 1), input.substr(at, 1 + Below(kMaxPiece)));
}

void Mutator::Splice(std::string& input) {
  const std::string& other = inputs_[Below(inputs_.size())];
  const std::size_t at = Below(other.size());
  input.replace(Below(input.size() + 1), Below(kMaxPiece),
                other.substr(at, 1 + Below(4 * kMaxPiece)));
}

std::string Mutator::Next() {
  std::string input = inputs_[Below(inputs_.size())];
  for (std::size_t changes = 1 + Below(8); changes > 0; --changes) {
    switch (Below(5)) {
      case 0:
        ChangeBit(input);
        break;
      case 1:
        ChangeByte(input);
        break;
      case 2:
        Cut(input);
        break;
      case 3:
        Double(input);
        break;
      default:
        Splice(input);
        break;
    }
  }
  input.resize(std::min(input.size(), kMaxSize));
  return input;
}

}  // namespace idempotency::internal::fuzz

#ifndef IDEMPOTENCY_BENCH_MICRO_INNER_LOOP_H_
#define IDEMPOTENCY_BENCH_MICRO_INNER_LOOP_H_

#include <memory>
#include <string_view>
#include <vector>

namespace idempotency::internal::bench {

// A piece of work that every call does, without its surroundings. The same each time: no clock, no
// random source, no threads, so that instructions can be counted and compared between builds.
class InnerLoop {
 public:
  virtual ~InnerLoop() = default;
  // In lower case with underscores; names its number in baseline.json.
  virtual std::string_view name() const = 0;
  virtual void Iterate() = 0;
};

// All of them, in a fixed order.
std::vector<std::unique_ptr<InnerLoop>> AllInnerLoops();

// For the compiler: marks `value` as used.
template <typename T>
void Use(const T& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

}  // namespace idempotency::internal::bench

#endif  // IDEMPOTENCY_BENCH_MICRO_INNER_LOOP_H_

// The simulation (docs/testing.md): runs the product under a simulated clock, network, store and
// scheduler, one seed after the other, and checks every promise of the README after each event.
// 2,000 seeds of 200 steps take under a minute on one core: scripts/simulate.sh; --nightly runs
// 100,000.
//
// Each seed runs in a child process of its own, all forked from the same state: the remains of a
// killed process need no cleaning up, and a crash is a failure like any other.
#include <spdlog/spdlog.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/simulation/journal.h"
#include "tests/simulation/scheduler.h"
#include "tests/simulation/simulation.h"
#include "tests/simulation/tally.h"

namespace {

using idempotency::internal::simulation::Journal;
using idempotency::internal::simulation::kCountNames;
using idempotency::internal::simulation::kCounts;
using idempotency::internal::simulation::Scheduler;
using idempotency::internal::simulation::Simulation;
using idempotency::internal::simulation::Tally;

constexpr char kUsage[] =
    "Runs the product under a simulated clock, network, store and scheduler, one seed\n"
    "after the other (docs/testing.md).\n"
    "\n"
    "  simulation                      2,000 seeds of 200 steps\n"
    "  simulation --nightly            100,000 seeds\n"
    "  simulation --seed=N [--trace]   repeats one seed exactly; --trace prints its events\n"
    "  simulation --first=N --seeds=COUNT --steps=COUNT\n"
    "\n"
    "Exit status: 0 every promise was kept; 1 a promise was broken, or too little happened;\n"
    "2 the run failed.\n";

// A run that exceeds these is in an endless loop, at any time of its own clock. The first is
// processor time, since the machine may be busy; the second is for a run that waits for ever.
constexpr rlim_t kBusySecondsForOneSeed = 60;
constexpr unsigned kSecondsForOneSeed = 600;
// A run of at least kSeedsToJudge seeds must contain every possible event, at least once in
// kOncePerSeeds seeds.
constexpr std::uint64_t kSeedsToJudge = 200;
constexpr std::uint64_t kOncePerSeeds = 100;
constexpr std::uint64_t kFailuresShown = 10;
// The number of seeds after which it prints its progress.
constexpr std::uint64_t kSeedsToProgress = 1'000;
// One of this many seeds runs twice, and must take the same path.
constexpr std::uint64_t kSeedsBetweenRepeats = 50;

struct Options {
  std::uint64_t first = 1;
  std::uint64_t seeds = 2'000;
  int steps = 200;
  bool trace = false;
  bool help = false;
};

// The report of a child to its parent.
struct Shared {
  Tally tally;
  std::uint64_t digest;
  std::uint64_t events;
  double simulated_seconds;
  char failure[1024];
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const char* const flag = argv[i];
    const char* const value = std::strchr(flag, '=') == nullptr ? "" : std::strchr(flag, '=') + 1;
    const std::size_t name = std::strcspn(flag, "=");
    const auto is = [&](const char* wanted) {
      return std::strlen(wanted) == name && std::strncmp(flag, wanted, name) == 0;
    };
    if (is("--seed")) {
      options.first = std::strtoull(value, nullptr, 10);
      options.seeds = 1;
    } else if (is("--first")) {
      options.first = std::strtoull(value, nullptr, 10);
    } else if (is("--seeds")) {
      options.seeds = std::strtoull(value, nullptr, 10);
    } else if (is("--steps")) {
      options.steps = std::atoi(value);
    } else if (is("--trace")) {
      options.trace = true;
    } else if (is("--nightly")) {
      options.seeds = 100'000;
    } else if (is("--help")) {
      options.help = true;
    } else {
      std::fprintf(stderr, "unknown argument: %s\n\n%s", flag, kUsage);
      return false;
    }
  }
  return true;
}

// A hash table is iterated in an order that depends on the addresses of its elements, so they must
// always have the same addresses: without this a run may differ in the order of events at one
// instant.
void FixAddresses(char** argv) {
  const int now = personality(0xFFFFFFFF);
  if (now != -1 && (now & ADDR_NO_RANDOMIZE) != 0) return;
  if (now != -1 && personality(static_cast<unsigned long>(now) | ADDR_NO_RANDOMIZE) != -1) {
    execv("/proc/self/exe", argv);
  }
  std::fprintf(stderr, "addresses cannot be fixed here: a seed may run differently elsewhere\n");
}

[[noreturn]] void RunSeed(std::uint64_t seed, const Options& options, Shared& shared) {
  const rlimit busy{kBusySecondsForOneSeed, kBusySecondsForOneSeed};
  setrlimit(RLIMIT_CPU, &busy);
  alarm(kSecondsForOneSeed);
  Scheduler scheduler(seed);
  Journal journal(scheduler, shared.tally, options.trace, shared.failure, sizeof shared.failure);
  Simulation simulation(scheduler, journal);
  simulation.Run(options.steps);
  shared.digest = scheduler.digest();
  shared.events += scheduler.events();
  shared.simulated_seconds +=
      static_cast<double>(scheduler.now()) / idempotency::internal::simulation::kSecond;
  _exit(0);
}

// Whether it kept every promise.
bool Try(std::uint64_t seed, const Options& options, Shared& shared) {
  shared.failure[0] = '\0';
  const pid_t child = fork();
  if (child == 0) RunSeed(seed, options, shared);
  int status = 0;
  while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  if (WIFSIGNALED(status) && shared.failure[0] == '\0') {
    std::snprintf(shared.failure, sizeof shared.failure, "ended by signal %d", WTERMSIG(status));
  } else if (status != 0 && shared.failure[0] == '\0') {
    std::snprintf(shared.failure, sizeof shared.failure, "ended with %d", status);
  }
  return status == 0;
}

// Whether a seed that kept its promises takes the same path again.
bool Repeats(std::uint64_t seed, const Options& options, Shared& shared) {
  if (options.trace || (seed - options.first) % kSeedsBetweenRepeats != 0) return true;
  const std::uint64_t digest = shared.digest;
  const bool same = Try(seed, options, shared) && shared.digest == digest;
  if (!same) {
    std::snprintf(shared.failure, sizeof shared.failure,
                  "at no time, but ran differently when repeated");
  }
  return same;
}

void TellProgress(std::uint64_t done, std::uint64_t failed, const Options& options) {
  if (done % kSeedsToProgress != 0 || done == options.seeds) return;
  std::fprintf(stderr, "%llu of %llu seeds, %llu failed\n", static_cast<unsigned long long>(done),
               static_cast<unsigned long long>(options.seeds),
               static_cast<unsigned long long>(failed));
}

// Whether enough happened for the seeds to prove something.
bool Judge(const Options& options, const Shared& shared) {
  bool all = true;
  for (std::size_t i = 0; i < kCounts; ++i) {
    const std::uint64_t times = shared.tally.counts[i];
    const bool enough = options.seeds < kSeedsToJudge || times >= options.seeds / kOncePerSeeds;
    std::printf("  %-52s %10llu%s\n", kCountNames[i], static_cast<unsigned long long>(times),
                enough ? "" : "  TOO FEW");
    all = all && enough;
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) return 2;
  if (options.help) {
    std::fputs(kUsage, stdout);
    return 0;
  }
  FixAddresses(argv);
  spdlog::set_level(spdlog::level::off);
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  void* const memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  Shared& shared = *new (memory) Shared();
  timespec began{};
  clock_gettime(CLOCK_MONOTONIC, &began);
  std::uint64_t failed = 0;
  for (std::uint64_t seed = options.first; seed < options.first + options.seeds; ++seed) {
    const bool kept = Try(seed, options, shared) && Repeats(seed, options, shared);
    if (!kept && ++failed <= kFailuresShown) {
      std::printf(
          "seed %llu broke a promise %s\n  again: simulation --seed=%llu --steps=%d --trace\n",
          static_cast<unsigned long long>(seed), shared.failure,
          static_cast<unsigned long long>(seed), options.steps);
    }
    TellProgress(seed - options.first + 1, failed, options);
  }
  timespec ended{};
  clock_gettime(CLOCK_MONOTONIC, &ended);
  std::printf("%llu of %llu seeds failed; %llu events, %.0f s simulated in %.1f s",
              static_cast<unsigned long long>(failed),
              static_cast<unsigned long long>(options.seeds),
              static_cast<unsigned long long>(shared.events), shared.simulated_seconds,
              static_cast<double>(ended.tv_sec - began.tv_sec) +
                  static_cast<double>(ended.tv_nsec - began.tv_nsec) / 1e9);
  std::printf("; digest of the last %016llx\n", static_cast<unsigned long long>(shared.digest));
  return Judge(options, shared) && failed == 0 ? 0 : 1;
}

#include "bench/offered_load.h"

#include <pthread.h>

#include <cstdint>
#include <limits>
#include <list>
#include <thread>

#include "absl/strings/str_cat.h"

#include "bench/cycle_workload.h"
#include "bench/load_report.h"
#include "bench/open_loop.h"

namespace idempotency::internal::bench {
namespace {

// The parts for one namespace, on a thread of its own.
class Caller {
 public:
  Caller(std::unique_ptr<Connection> connection, const RecordRequests::Options& requests,
         const OpenLoop::Options& options)
      : connection_(std::move(connection)),
        requests_(requests),
        workload_(*connection_, requests_),
        loop_(workload_, report_, options),
        thread_([this] {
          pthread_setname_np(pthread_self(), "caller");
          loop_.Run();
        }) {}

  const LoadReport& Join() {
    thread_.join();
    return report_;
  }

 private:
  const std::unique_ptr<Connection> connection_;
  const RecordRequests requests_;
  CycleWorkload workload_;
  LoadReport report_;
  OpenLoop loop_;
  std::thread thread_;
};

}  // namespace

std::string OfferedLoad::Run(const std::vector<Namespace>& namespaces) {
  std::list<Caller> callers;
  std::uint64_t seed = options_.requests.keys.seed;
  for (const Namespace& offered : namespaces) {
    RecordRequests::Options requests = options_.requests;
    requests.name_space = offered.name;
    requests.keys.seed = ++seed;
    OpenLoop::Options options;
    options.rate = offered.rate;
    options.warmup = options_.warmup;
    options.duration = options_.duration;
    options.max_in_flight = offered.max_in_flight;
    options.seed = seed;
    options.max_failures = std::numeric_limits<std::uint64_t>::max();
    callers.emplace_back(connect_(), requests, options);
  }
  std::string json;
  auto caller = callers.begin();
  for (const Namespace& offered : namespaces) {
    absl::StrAppend(&json, json.empty() ? "{" : ",", "\"", offered.name,
                    "\":", (caller++)->Join().ToJson());
  }
  return json + "}";
}

}  // namespace idempotency::internal::bench

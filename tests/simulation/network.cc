#include "tests/simulation/network.h"

#include <algorithm>

namespace idempotency::internal::simulation {
namespace {

constexpr Nanos kLatest = 8 * kSecond;

std::pair<std::string, std::string> Between(const std::string& a, const std::string& b) {
  return std::minmax(a, b);
}

}  // namespace

void Network::Send(const std::string& from, Process* to, const std::string& to_host,
                   const std::function<void()>& deliver) {
  Random& random = scheduler_.random();
  if (IsCut(from, to_host) || random.Chance(plan_.lost)) {
    journal_.Counted(Count::kMessageLost);
    return;
  }
  int copies = 1;
  if (random.Chance(plan_.duplicated)) {
    journal_.Counted(Count::kMessageDuplicated);
    copies = 2;
  }
  for (int copy = 0; copy < copies; ++copy) {
    Nanos latency = Latency();
    if (random.Chance(plan_.late)) {
      journal_.Counted(Count::kMessageLate);
      latency += random.Between(0, kLatest);
    }
    scheduler_.After(latency, to, deliver);
  }
}

Nanos Network::Latency() { return scheduler_.random().Between(50, 1500) * kMicrosecond; }

bool Network::BreaksStream() { return scheduler_.random().Chance(plan_.stream_breaks); }

void Network::Cut(const std::string& a, const std::string& b) { cuts_.insert(Between(a, b)); }

bool Network::IsCut(const std::string& a, const std::string& b) const {
  return !cuts_.empty() && cuts_.count(Between(a, b)) > 0;
}

}  // namespace idempotency::internal::simulation

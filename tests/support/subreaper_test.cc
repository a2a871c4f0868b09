// A test that ends without ending its child processes and removing its folders: none of them is
// left.
#include "tests/support/subreaper.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"

#include "tests/support/daemon_process.h"
#include "tests/support/postgres_cluster.h"
#include "tests/support/process.h"
#include "tests/support/temp_folder.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kHow[] = "HOW_TO_END";

enum class End { kAbort, kKillsItself, kExits, kIsKilled, kIsTerminated };

std::string NameOf(End end) {
  switch (end) {
    case End::kAbort:
      return "Abort";
    case End::kKillsItself:
      return "KillsItself";
    case End::kExits:
      return "Exits";
    case End::kIsKilled:
      return "IsKilled";
    case End::kIsTerminated:
      return "IsTerminated";
  }
  return "";
}

// 0 if it has ended.
pid_t ParentOf(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(status, line);) {
    absl::string_view parent = line;
    int number = 0;
    if (absl::ConsumePrefix(&parent, "PPid:\t") && absl::SimpleAtoi(parent, &number)) return number;
  }
  return 0;
}

std::vector<pid_t> DescendantsOf(pid_t ancestor) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    int pid = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    pid_t above = pid;
    do {
      above = ParentOf(above);
    } while (above > 1 && above != ancestor);
    if (above == ancestor) found.push_back(pid);
  }
  return found;
}

// A test that fails, run by the one below: this binary, once more.
TEST(Careless, DISABLED_Test) {
  const TempFolder folder;
  const DaemonProcess daemon("sqlite:" + folder.File("records.db"));
  const DaemonProcess behind_a_shell("sqlite:" + folder.File("others.db"), {}, 200);
  const auto postgres = PostgresCluster::Create({/*fsync=*/false}).value();
  // From a thread that ends, stopped; and a child of a child in a session of its own, whose parent
  // ends.
  std::unique_ptr<Process> frozen;
  std::thread([&] {
    frozen = Process::Start({"/bin/sleep", "1000"}).value();
    frozen->Freeze();
  }).join();
  const auto parent =
      Process::Start({"/bin/sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo started $!"})
          .value();
  const auto line = parent->WaitForLine("started ");
  ASSERT_TRUE(line.ok()) << line.status();
  ASSERT_TRUE(parent->Wait().ok());

  std::cout << "pids " << getpid() << " " << absl::StripPrefix(*line, "started ");
  for (const pid_t child : DescendantsOf(getpid())) std::cout << " " << child;
  std::cout << std::endl;
  const std::string how = std::getenv(kHow);
  if (how == NameOf(End::kAbort)) std::abort();
  if (how == NameOf(End::kKillsItself)) kill(getpid(), SIGKILL);
  if (how == NameOf(End::kExits)) _exit(7);
  pause();
}
// The next test with a folder.
TEST(Careful, DISABLED_Test) { const TempFolder folder; }

class SubreaperTest : public ::testing::TestWithParam<End> {
 protected:
  SubreaperTest() {
    // Postgres runs as another user.
    std::filesystem::permissions(folder_.path(), std::filesystem::perms(0711));
  }

  std::unique_ptr<Process> Start(const std::string& test) const {
    return Process::Start(
               {"subreaper_test", "--gtest_also_run_disabled_tests",
                "--gtest_filter=" + test + ".DISABLED_Test"},
               {{kHow, NameOf(GetParam())}, {kSubreaperVariable, ""}, {"TMPDIR", folder_.path()}})
        .value();
  }
  std::vector<std::filesystem::path> Left() const {
    std::vector<std::filesystem::path> left;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      left.push_back(entry.path());
    }
    return left;
  }

  const TempFolder folder_;
};

TEST_P(SubreaperTest, TakesEverythingThatTheTestStartedWithIt) {
  const auto test = Start("Careless");
  const auto line = test->WaitForLine("pids ", Process::Seconds(100));
  ASSERT_TRUE(line.ok()) << line.status();
  std::vector<pid_t> pids;
  for (absl::string_view word : absl::StrSplit(absl::StripPrefix(*line, "pids "), ' ')) {
    int pid = 0;
    ASSERT_TRUE(absl::SimpleAtoi(word, &pid)) << *line;
    pids.push_back(pid);
  }
  // The test, the one in a session of its own, two daemons, a stopped one, Postgres with some
  // processes of its own.
  EXPECT_GE(pids.size(), 8u) << *line;

  // The original process, as seen by ctest and timeout(1).
  if (GetParam() == End::kIsKilled) test->Signal(SIGKILL);
  if (GetParam() == End::kIsTerminated) test->Signal(SIGTERM);
  const auto exit = test->Wait();
  ASSERT_TRUE(exit.ok()) << exit.status();
  const absl::Time limit = absl::Now() + absl::Seconds(30);
  for (const pid_t pid : pids) {
    while (ParentOf(pid) != 0 && absl::Now() < limit) absl::SleepFor(absl::Milliseconds(5));
    EXPECT_EQ(ParentOf(pid), 0) << pid << " is left of " << *line;
  }
  // The test's own, the cluster, and that of an empty cluster.
  EXPECT_EQ(Left().size(), 3u);
  for (const std::filesystem::path& left : Left()) {
    std::filesystem::last_write_time(
        left, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  EXPECT_EQ(Start("Careful")->Wait(Process::Seconds(100)).value().code, 0);
  EXPECT_TRUE(Left().empty()) << Left().front();
  switch (GetParam()) {
    case End::kAbort:
      EXPECT_EQ(exit->signal, SIGABRT);
      break;
    case End::kExits:
      EXPECT_EQ(exit->code, 7);
      break;
    case End::kIsTerminated:
      EXPECT_EQ(exit->signal, SIGTERM);
      break;
    case End::kKillsItself:
    case End::kIsKilled:
      EXPECT_EQ(exit->signal, SIGKILL);
      break;
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, SubreaperTest,
                         ::testing::Values(End::kAbort, End::kKillsItself, End::kExits,
                                           End::kIsKilled, End::kIsTerminated),
                         [](const auto& test) { return NameOf(test.param); });

}  // namespace
}  // namespace idempotency::internal::testing

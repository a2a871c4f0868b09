// The folders of a process that has ended without destructors do not stay.
#include "tests/support/temp_folder.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "tests/support/process.h"

namespace idempotency::internal::testing {
namespace {

constexpr char kStarts[] = "STARTS_A_PROCESS";

// Run by the tests below, each time in a process of its own.
TEST(Careless, DISABLED_Test) {
  const TempFolder folder;
  std::ofstream(folder.File("file")) << "content";
  std::cout << "folder " << folder.path() << std::endl;
  std::unique_ptr<Process> child;
  if (std::getenv(kStarts) != nullptr) {
    // Its output is its own: a pipe of this process's would keep that one's reader waiting.
    child = Process::Start({"/bin/sh", "-c", "exec sleep 1000 >/dev/null 2>&1"}).value();
    std::cout << "child " << child->pid() << std::endl;
  }
  _exit(7);
}
TEST(Careful, DISABLED_Test) { const TempFolder folder; }

class TempFolderTest : public ::testing::Test {
 protected:
  std::unique_ptr<Process> Start(const std::string& test) const {
    return Process::Start({"temp_folder_test", "--gtest_also_run_disabled_tests",
                           "--gtest_filter=" + test + ".DISABLED_Test"},
                          {{"TMPDIR", parent_.path()}})
        .value();
  }
  // The folder that it leaves.
  static std::filesystem::path LeftBy(Process& careless) {
    const auto line = careless.WaitForLine("folder ");
    EXPECT_TRUE(line.ok()) << line.status();
    EXPECT_EQ(careless.Wait().value().code, 7);
    return line.value().substr(std::string("folder ").size());
  }
  static void MakeOld(const std::filesystem::path& folder) {
    std::filesystem::last_write_time(
        folder, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  }
  void RunCareful() const { EXPECT_EQ(Start("Careful")->Wait().value().code, 0); }

  const TempFolder parent_;
};

TEST_F(TempFolderTest, OfADeadProcessIsRemovedByTheNext) {
  const auto left = LeftBy(*Start("Careless"));
  EXPECT_TRUE(std::filesystem::exists(left / "file"));
  MakeOld(left);
  RunCareful();
  EXPECT_TRUE(std::filesystem::is_empty(parent_.path()));
}

TEST_F(TempFolderTest, ThatIsNewMayNotBeLockedYet) {
  const auto left = LeftBy(*Start("Careless"));
  RunCareful();
  EXPECT_TRUE(std::filesystem::exists(left / "file"));
}

TEST_F(TempFolderTest, StaysWhileAProcessThatWasStartedMeanwhileRuns) {
  const auto careless = Process::Start({"temp_folder_test", "--gtest_also_run_disabled_tests",
                                        "--gtest_filter=Careless.DISABLED_Test"},
                                       {{"TMPDIR", parent_.path()}, {kStarts, "1"}})
                            .value();
  const auto left = LeftBy(*careless);
  const auto child = careless->WaitForLine("child ");
  ASSERT_TRUE(child.ok()) << child.status();
  MakeOld(left);
  RunCareful();
  EXPECT_TRUE(std::filesystem::exists(left / "file"));
  const pid_t pid = std::stoi(child->substr(std::string("child ").size()));
  kill(pid, SIGKILL);
  // The kernel closes its descriptors before its parent, the subreaper, is informed.
  while (kill(pid, 0) == 0) sched_yield();
  RunCareful();
  EXPECT_FALSE(std::filesystem::exists(left));
}

}  // namespace
}  // namespace idempotency::internal::testing

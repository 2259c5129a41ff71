#include "backends/cpu/memory_limits.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/cpu/cpu_info.hpp"
#include "base/files/file.hpp"
#include "base/out_of_memory.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A root folder with /proc and the mount points of control groups.
class ControlGroups : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    make_folder((folder_ / name).parent_path());
    write_file_atomically(folder_ / name, text);
  }
  void group_1(const std::string& folder, const std::string& limit, const std::string& usage,
               const std::string& inactive) const {
    write(folder + "/memory.limit_in_bytes", limit + "\n");
    write(folder + "/memory.usage_in_bytes", usage + "\n");
    write(folder + "/memory.stat", "inactive_file 7\ntotal_cache 9\ntotal_inactive_file " + inactive + "\n");
  }
  void group_2(const std::string& folder, const std::string& limit, const std::string& usage,
               const std::string& inactive) const {
    write(folder + "/memory.max", limit + "\n");
    write(folder + "/memory.current", usage + "\n");
    write(folder + "/memory.stat", "anon 5\ninactive_file " + inactive + "\nactive_file 3\n");
  }
  [[nodiscard]] std::optional<MemoryRoom> room() const { return control_group_room(folder_.path()); }

 private:
  TempFolder folder_;
};

constexpr const char* kMount2 = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kMounts1 =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST_F(ControlGroups, OfVersion2LeaveTheLeastOfAllAround) {
  write("proc/self/cgroup", "0::/jobs/7\n");
  write("proc/self/mountinfo", kMount2);
  group_2("sys/fs/cgroup/jobs/7", "max", "500", "0");
  EXPECT_FALSE(room());
  group_2("sys/fs/cgroup/jobs", "1048576", "300000", "100000");
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->bytes, 1048576U - 200000U);
  EXPECT_THAT(room()->limit, HasSubstr("/jobs, which allows 1.00 MiB"));
  group_2("sys/fs/cgroup/jobs/7", "4096", "5000", "100");
  EXPECT_EQ(room()->bytes, 0U) << "more is held than is allowed";
}

TEST_F(ControlGroups, OfVersion1AreFoundByTheirController) {
  write("proc/self/cgroup", "9:name=systemd:/\n4:memory:/jobs/7\n1:cpu:/other\n0::/\n");
  write("proc/self/mountinfo", kMounts1);
  group_1("sys/fs/cgroup/memory/jobs/7", "9223372036854771712", "500", "0");
  group_1("sys/fs/cgroup/memory", "9223372036854771712", "500", "0");
  EXPECT_FALSE(room());
  group_1("sys/fs/cgroup/memory/jobs/7", "2097152", "1048576", "1024");
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->bytes, 1048576U + 1024U);
  EXPECT_THAT(room()->limit, HasSubstr("/jobs/7"));
  group_1("sys/fs/cgroup/memory/jobs", "1048577", "1048576", "0");
  EXPECT_EQ(room()->bytes, 1U);
}

/// The mount shows the container's group as its root; the process knows the group by the host's name.
TEST_F(ControlGroups, InAContainerAreBelowTheMount) {
  write("proc/self/cgroup", "4:cpu,memory:/docker/abc/inner\n");
  write("proc/self/mountinfo", "35 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,cpu,memory\n");
  group_1("sys/fs/cgroup/memory", "4096", "96", "0");
  ASSERT_TRUE(room());
  EXPECT_EQ(room()->bytes, 4000U);
  group_1("sys/fs/cgroup/memory/inner", "1000", "400", "0");
  EXPECT_EQ(room()->bytes, 600U);
  write("proc/self/cgroup", "4:memory:/another\n");
  EXPECT_EQ(room()->bytes, 4000U) << "the mount's own group is the only one that is seen";
  write("proc/self/cgroup", "4:memory:/../../other\n");
  EXPECT_EQ(room()->bytes, 4000U);
}

TEST_F(ControlGroups, ThatSayNothingLimitNothing) {
  EXPECT_FALSE(room()) << "no /proc";
  write("proc/self/cgroup", "nonsense\n4:memory\n");
  write("proc/self/mountinfo", "nonsense - cgroup\n35 31 - cgroup2\n" + std::string(kMount2));
  EXPECT_FALSE(room());
  write("proc/self/cgroup", "0::/\n");
  EXPECT_FALSE(room()) << "no files";
}

class ResourceLimits : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the sanitizer takes more address space than any limit here";
#endif
  }
};

/// The exit code of a child process that does this under a limit.
template <class Body>
int in_child(int resource, rlim_t limit, const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    const struct rlimit both {
      limit, limit
    };
    if (setrlimit(static_cast<__rlimit_resource>(resource), &both) != 0) _exit(99);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(ResourceLimits, AreWhatAProcessMayStillTake) {
  constexpr rlim_t kLimit = rlim_t{1} << 40;  // more than there is, so that nothing fails
  for (const int resource : {static_cast<int>(RLIMIT_AS), static_cast<int>(RLIMIT_DATA)})
    EXPECT_EQ(in_child(resource, kLimit,
                       [] {
                         const auto room = resource_limit_room();
                         if (!room || room->bytes >= kLimit || room->bytes < kLimit / 2) return 1;
                         return room->limit.find("limited to 1.00 TiB") == std::string::npos ? 2 : 0;
                       }),
              0)
        << resource;
}

TEST_F(ResourceLimits, AreNamedWhereTheyAreTooLow) {
  require_room(SIZE_MAX, "without a limit anything");
  constexpr rlim_t kLimit = rlim_t{1} << 40;
  EXPECT_EQ(in_child(RLIMIT_AS, kLimit,
                     [] {
                       require_room(kLimit / 2, "a chart");
                       try {
                         require_room(kLimit, "a chart");
                       } catch (const OutOfMemory& error) {
                         const std::string_view sentence = error.what();
                         return sentence.starts_with(
                                    "a chart needs 1.00 TiB of memory, and of the process's address "
                                    "space (ulimit -v), limited to 1.00 TiB, there are ")
                                    ? 0
                                    : 2;
                       }
                       return 1;
                     }),
            0);
}

TEST_F(ResourceLimits, AreKnownToTheSystemsMemory) {
  constexpr rlim_t kLimit = rlim_t{256} << 20;  // more than the process has, and less than the system
  EXPECT_EQ(
      in_child(RLIMIT_DATA, kLimit,
               [] {
                 const SystemMemory memory = system_memory();
                 return memory.available_bytes < kLimit && memory.limit.find("ulimit -d") != std::string::npos ? 0 : 1;
               }),
      0);
}

}  // namespace
}  // namespace headroom

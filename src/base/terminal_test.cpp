#include "base/terminal.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>

namespace headroom {
namespace {

/// The master side of a pseudo-terminal, which the system provides to every test.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(unsigned short columns) : master_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    set_ =
        master_ >= 0 && ::grantpt(master_) == 0 && ::unlockpt(master_) == 0 && ::ioctl(master_, TIOCSWINSZ, &size) == 0;
  }
  ~PseudoTerminal() { ::close(master_); }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  [[nodiscard]] int descriptor() const { return master_; }
  [[nodiscard]] bool is_set() const { return set_; }

 private:
  int master_;
  bool set_ = false;
};

/// Restores COLUMNS at the end.
class OutputColumns : public testing::Test {
 protected:
  OutputColumns() {
    if (const char* const before = std::getenv("COLUMNS"); before != nullptr) before_ = before;
    unsetenv("COLUMNS");
  }
  ~OutputColumns() override {
    if (before_)
      setenv("COLUMNS", before_->c_str(), 1);
    else
      unsetenv("COLUMNS");
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(OutputColumns, AreThoseOfTheTerminal) {
  const PseudoTerminal terminal(97);
  ASSERT_TRUE(terminal.is_set());
  EXPECT_EQ(terminal_columns(terminal.descriptor()), 97U);
  EXPECT_EQ(output_columns(terminal.descriptor()), 97U);
}

TEST_F(OutputColumns, AreThoseOfTheEnvironmentWhereItTells) {
  const PseudoTerminal terminal(97);
  ASSERT_TRUE(terminal.is_set());
  setenv("COLUMNS", "80", 1);
  EXPECT_EQ(output_columns(terminal.descriptor()), 80U);
  EXPECT_EQ(output_columns(-1), 80U);
  for (const char* const no_number : {"", "wide", "-5", "0", "80 "}) {
    setenv("COLUMNS", no_number, 1);
    EXPECT_EQ(output_columns(terminal.descriptor()), 97U) << "'" << no_number << "'";
  }
}

TEST_F(OutputColumns, AreADefaultWhereThereIsNoTerminal) {
  EXPECT_EQ(terminal_columns(-1), std::nullopt);
  EXPECT_EQ(output_columns(-1), kDefaultColumns);
}

TEST_F(OutputColumns, AreNeverTooFewForATable) {
  setenv("COLUMNS", "7", 1);
  EXPECT_EQ(output_columns(-1), kFewestColumns);
}

}  // namespace
}  // namespace headroom

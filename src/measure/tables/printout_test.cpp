#include "measure/tables/printout.hpp"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace headroom {
namespace {

Table table_of(std::string name) {
  Table table;
  table.add_column("name", Align::kLeft);
  table.add_column(Column{.header = "time", .fields = {"time_ms"}});
  table.add_row({std::move(name), ms_cell(1.5)});
  return table;
}

Printout two_tables() {
  Printout printout(table_of("a"));
  printout.add("\nnot settled:\n  a_b: too noisy to report\n\n");
  printout.add(table_of("b"));
  return printout;
}

TEST(Printout, KnowsItsFormatsByName) {
  EXPECT_EQ(parse_table_format("text"), TableFormat::kText);
  EXPECT_EQ(parse_table_format("csv"), TableFormat::kCsv);
  EXPECT_EQ(parse_table_format("md"), TableFormat::kMarkdown);
  EXPECT_EQ(parse_table_format("markdown"), TableFormat::kMarkdown);
  EXPECT_EQ(parse_table_format("latex"), TableFormat::kLatex);
  EXPECT_EQ(parse_table_format("CSV"), std::nullopt);
}

TEST(Printout, HasTablesAndRemarksInOrder) {
  EXPECT_EQ(two_tables().text(),
            "name     time\n----  -------\na     1.50 ms\n"
            "\nnot settled:\n  a_b: too noisy to report\n\n"
            "name     time\n----  -------\nb     1.50 ms\n");
}

TEST(Printout, WrapsRemarks) {
  EXPECT_NE(two_tables().to_string(TableFormat::kText, 20).find("  a_b: too noisy to\n    report\n"),
            std::string::npos);
}

TEST(Printout, IsOneTableInCsv) {
  EXPECT_EQ(two_tables().to_string(TableFormat::kCsv), "name,time_ms\na,1.5\n");
  Printout printout = two_tables();
  printout.set_csv(table_of("joined"));
  EXPECT_EQ(printout.to_string(TableFormat::kCsv), "name,time_ms\njoined,1.5\n");
}

TEST(Printout, HasRemarksAsParagraphsInMarkdown) {
  EXPECT_EQ(two_tables().to_string(TableFormat::kMarkdown),
            "| name | time |\n|---|--:|\n| a | 1.50 ms |\n"
            "\nnot settled:\n\na_b: too noisy to report\n"
            "\n| name | time |\n|---|--:|\n| b | 1.50 ms |\n");
}

TEST(Printout, HasRemarksAsCommentsInLatex) {
  const std::string text = two_tables().to_string(TableFormat::kLatex);
  EXPECT_NE(text.find("\\end{tabular}\n% not settled:\n% a_b: too noisy to report\n\n\\begin{tabular}"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace headroom

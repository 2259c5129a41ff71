#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "measure/tables/printout.hpp"
#include "report/dataset.hpp"

/// What a report draws, as tables: for spreadsheets, documents and papers.
namespace headroom {

struct ReportTable {
  std::string file;  ///< its name without a suffix
  std::string title;
  Table table;
};

/// `report_table_measurements` has a row for each measurement; then there is a table for each of views_of() that has several: the current
/// configurations of its scenarios, named by model, request and machine.
[[nodiscard]] std::vector<ReportTable> report_tables(const Dataset& dataset);

/// Whether a file in a report's folder is one of these, in any format, of this report or an earlier one.
[[nodiscard]] bool is_report_table(std::string_view file);

/// Writes them into `folder` in each of the formats, and removes those of an earlier report that are not of this one. Gives
/// their files, in order. Throws Error where one cannot be written or removed.
std::vector<std::string> write_report_tables(const Dataset& dataset, const std::filesystem::path& folder,
                                             const std::set<TableFormat>& formats);

}  // namespace headroom

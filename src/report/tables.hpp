#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "measure/tables/printout.hpp"
#include "report/dataset.hpp"

/// The data of a report as tables: for spreadsheets, documents and papers.
namespace headroom {

struct ReportTable {
  std::string file;  ///< name without extension
  std::string title;
  Table table;
};

/// `report_table_measurements` has a row for each measurement. Each of views_of() with several measurements has a
/// table of its own: the current configurations of its scenarios, named by model, request and machine.
[[nodiscard]] std::vector<ReportTable> report_tables(const Dataset& dataset);

/// Whether a file in a report's folder is one of these tables, in any format, of this report or an earlier one.
[[nodiscard]] bool is_report_table(std::string_view file);

/// Writes the tables into `folder` in each of the formats, and removes those of an earlier report that this one
/// does not have. Returns the files, in order. Throws Error if one cannot be written or removed.
std::vector<std::string> write_report_tables(const Dataset& dataset, const std::filesystem::path& folder,
                                             const std::set<TableFormat>& formats);

}  // namespace headroom

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/core/cuda/grid_rows.hpp"

/// The interface of movement_cuda between its host and device halves.
namespace headroom::cuda {

/// A copy of rows of bytes: operands from, to; length and strides in bytes. An element of `element_bytes` is never
/// split. If the source `repeats`, a row is one repeated element.
struct CopyRows {
  int element_bytes = 1;
  GridRows<2> grid;
};
void launch_copy(void* stream, const CopyRows& rows, const void* from, void* to);

/// One of several copies, none of which reads or writes the destination of another.
struct Copy {
  CopyRows rows;
  const void* from = nullptr;
  void* to = nullptr;
};
/// Runs several copies in as few launches as possible.
void launch_copies(void* stream, std::span<const Copy> copies);

/// Fills every element with the lowest bytes of `value`; operand from is ignored.
void launch_fill(void* stream, const CopyRows& rows, std::uint64_t value, void* to);

/// Copies `bytes` of host memory, which may be freed when this returns.
void copy_to_device(void* stream, const void* from, void* to, std::size_t bytes);

/// The copy of table[*index], where `index` is on the device and the rows of the table lie `row_bytes` apart. An index
/// outside 0..table_rows - 1 ends the kernel with an error that the next synchronization reports.
void launch_copy_row(void* stream, const CopyRows& rows, const void* table, const std::int32_t* index,
                     std::int64_t table_rows, std::int64_t row_bytes, void* to);

}  // namespace headroom::cuda

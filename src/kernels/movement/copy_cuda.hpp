#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/core/cuda/grid_rows.hpp"

/// Between the two halves of movement_cuda: what is prepared and what is launched.
namespace headroom::cuda {

/// Rows of bytes from one place to another: operands from, to; length and strides in bytes. An element of
/// `element_bytes` is never split. Where the source `repeats`, a row is one element over and over.
struct CopyRows {
  int element_bytes = 1;
  GridRows<2> grid;
};
void launch_copy(void* stream, const CopyRows& rows, const void* from, void* to);

/// One of several copies, none of which reads or writes what another writes.
struct Copy {
  CopyRows rows;
  const void* from = nullptr;
  void* to = nullptr;
};
/// The same in as few launches as can be.
void launch_copies(void* stream, std::span<const Copy> copies);

/// The same with every element from the lowest bytes of `value`; operand from is not looked at.
void launch_fill(void* stream, const CopyRows& rows, std::uint64_t value, void* to);

/// `bytes` of the host's memory, which may be given back when this returns.
void copy_to_device(void* stream, const void* from, void* to, std::size_t bytes);

/// The copy of table[*index], where `index` is on the device and the rows of the table lie `row_bytes` apart. An index
/// outside 0..table_rows - 1 ends the kernel with an error that the next synchronization reports.
void launch_copy_row(void* stream, const CopyRows& rows, const void* table, const std::int32_t* index,
                     std::int64_t table_rows, std::int64_t row_bytes, void* to);

}  // namespace headroom::cuda

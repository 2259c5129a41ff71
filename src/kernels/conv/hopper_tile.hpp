#pragma once

namespace headroom::convolutions {

/// The work of a thread block: it computes `columns` output channels of `blocks` times 8x8 pixels, `taps` of a row
/// of the filter at once. A cluster of `split` blocks splits the terms of each sum.
struct HopperTile {
  int blocks = 1;
  int columns = 64;
  int split = 1;
  int taps = 1;  ///< 1 or 3
  friend bool operator==(const HopperTile&, const HopperTile&) = default;
};

}  // namespace headroom::convolutions

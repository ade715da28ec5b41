// One kernel of a bundle. The cache knows no CUDA: all but the label are bytes whose meaning is their maker's.
#pragma once

#include "base/shared_bytes.h"
#include "cache/bundle_label.h"

namespace epifuse::cache {

struct BundleEntry {
  SharedBytes request;  // the canonical request: found by its digest, decided by its text
  BundleLabel label;
  SharedBytes info;    // JSON, for listings and for comparing with what would be made today
  SharedBytes recipe;  // launch recipe
  SharedBytes image;   // what the toolchain said (KernelImage::Parts::metadata)
  SharedBytes cubin;   // aligned to 256 bytes where the bundle is
};

}  // namespace epifuse::cache

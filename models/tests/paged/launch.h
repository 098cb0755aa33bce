// What the programs that run kernels share: a thread's place, a grid, arrays from stdin and to stdout.
#pragma once
#include "host.h"

struct Ids {
  int lane, warp, x, y, z, xs;
};
#define IDS \
  const int lane = ids.lane, warp = ids.warp, group_x = ids.x, group_y = ids.y, group_z = ids.z, groups_x = ids.xs; \
  (void)lane, (void)warp, (void)group_x, (void)group_y, (void)group_z, (void)groups_x;

template <typename X>
std::vector<X> take(size_t count) {
  std::vector<X> v(count);
  if (std::fread(v.data(), sizeof(X), count, stdin) != count) fail("the input is too short");
  return v;
}

// NaN in every type.
template <typename X>
std::vector<X> unwritten(size_t count) {
  std::vector<X> v(count);
  std::memset(static_cast<void*>(v.data()), 0xff, count * sizeof(X));
  return v;
}

template <typename X>
void give(const std::vector<X>& v) {
  std::fwrite(v.data(), sizeof(X), v.size(), stdout);
}

// Every threadgroup of a grid, in random order.
template <typename F>
void launch(int x, int y, int z, int warps, F kernel) {
  std::vector<int> order(size_t(x) * y * z);
  for (size_t i = 0; i < order.size(); i++) order[i] = int(i);
  std::shuffle(order.begin(), order.end(), dice);
  for (int i : order) {
    run_group(warps, [&](int at) { kernel(Ids{at % 32, at / 32, i % x, i / x % y, i / x / y, x}); });
  }
}

// Runs one case of the product of a few rows: reads a header and arrays from stdin, writes the product.
#include "host.h"
#include "launch.h"

template <typename T, int TILES, int TALL, int DEEP, int WARPS>
void matmul(const T* x, const int* x_shape, const T* w, const int* w_shape, T* out, Ids ids) {
  constexpr int BITS = 16;
  IDS
#define COX_PACKED 0
#include "matmul.inc"
#undef COX_PACKED
}

template <typename T, int BITS, int GROUP, int WORDS, int K, int TILES, int TALL, int DEEP, int WARPS>
void packed_matmul(const T* x, const int* x_shape, const uint32_t* w, const int* w_shape, const T* scales, const T* biases, T* out, Ids ids) {
  IDS
#define COX_PACKED 1
#include "matmul.inc"
#undef COX_PACKED
}

// Header: rows, N, the length of a row, threadgroups. BITS is 16 for weights of type T, which have no scales and biases, and whose kernel is for any K.
template <typename T, int BITS, int GROUP, int WORDS, int K, int TILES, int TALL, int DEEP, int WARPS>
void run_matmul() {
  const auto head = take<uint32_t>(4);
  const size_t rows = head[0], outs = head[1], length = head[2];
  const auto x = take<T>(rows * length);
  const auto w = take<uint32_t>(outs * length * BITS / 32);
  const size_t groups = BITS == 16 ? 0 : outs * length / GROUP;
  const auto scales = take<T>(groups), biases = take<T>(groups);
  auto out = unwritten<T>(rows * outs);
  spans = {{x.data(), x.size() * sizeof(T)}, {w.data(), w.size() * 4}, {scales.data(), scales.size() * sizeof(T)}, {biases.data(), biases.size() * sizeof(T)}};
  const int x_shape[2] = {int(rows), int(length)}, w_shape[2] = {int(outs), int(length * BITS / (BITS == 16 ? 16 : 32))};
  launch(int(head[3]), 1, 1, WARPS, [&](Ids ids) {
    if constexpr (BITS == 16) {
      matmul<T, TILES, TALL, DEEP, WARPS>(x.data(), x_shape, reinterpret_cast<const T*>(w.data()), w_shape, out.data(), ids);
    } else {
      packed_matmul<T, BITS, GROUP, WORDS, K, TILES, TALL, DEEP, WARPS>(x.data(), x_shape, w.data(), w_shape, scales.data(), biases.data(), out.data(), ids);
    }
  });
  give(out);
}

#include "main.inc"

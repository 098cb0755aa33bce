// Runs one case of the kernels that replace several of MLX's operations: reads a header and arrays from stdin, writes what it computed.
#include "host.h"
#include "launch.h"

template <typename T, int D, int HEADS, int KV_HEADS, int WARPS, int PAIRED>
void rotate(const T* qkv, const float* cosines, const float* sines, const T* k_pool, const T* v_pool, const uint32_t* slots, T* q,
            uint32_t* done, Ids ids) {
  IDS
#define COX_NORMS 0
#include "rotate.inc"
#undef COX_NORMS
}

template <typename T, int D, int HEADS, int KV_HEADS, int WARPS, int PAIRED, int EPS>
void norm_rotate(const T* qkv, const float* cosines, const float* sines, const T* k_pool, const T* v_pool, const uint32_t* slots,
                 const T* q_norm, const T* k_norm, T* q, uint32_t* done, Ids ids) {
  IDS
#define COX_NORMS 1
#include "rotate.inc"
#undef COX_NORMS
}

template <typename T, int INNER, int EACH, int WARPS>
void swiglu(const T* both, T* out, Ids ids) {
  IDS
#include "swiglu.inc"
}

template <typename T, int N, int WARPS, int EPS>
void add_norm(const T* x, const T* y, const T* weight, T* sum, T* out, Ids ids) {
  IDS
#include "add_norm.inc"
}

// 1e-5, as its bits.
constexpr int EPS = 0x3727c5ac;

// Header: tokens, slots of a pool. The pools come in as they are before and go out as they are after.
template <typename T, int D, int HEADS, int KV_HEADS, int PAIRED, int NORMS>
void run_rotate() {
  constexpr int ALL = HEADS + 2 * KV_HEADS, WARPS = 8;
  const auto head = take<uint32_t>(2);
  const size_t tokens = head[0], line = KV_HEADS * D;
  const auto qkv = take<T>(tokens * ALL * D);
  const auto cosines = take<float>(tokens * D / 2), sines = take<float>(tokens * D / 2);
  const auto q_norm = take<T>(D), k_norm = take<T>(D);
  auto k = take<T>(head[1] * line), v = take<T>(head[1] * line);
  const auto slots = take<uint32_t>(tokens);
  auto q = unwritten<T>(tokens * HEADS * D);
  uint32_t done = 7;
  launch((ALL + WARPS - 1) / WARPS, int(tokens), 1, WARPS, [&](Ids ids) {
    if constexpr (NORMS) {
      norm_rotate<T, D, HEADS, KV_HEADS, WARPS, PAIRED, EPS>(qkv.data(), cosines.data(), sines.data(), k.data(), v.data(), slots.data(),
                                                            q_norm.data(), k_norm.data(), q.data(), &done, ids);
    } else {
      rotate<T, D, HEADS, KV_HEADS, WARPS, PAIRED>(qkv.data(), cosines.data(), sines.data(), k.data(), v.data(), slots.data(), q.data(),
                                                  &done, ids);
    }
  });
  if (done != 0) fail("rotating must give a zero");
  give(q);
  give(k);
  give(v);
}

// Header: tokens.
template <typename T, int INNER>
void run_swiglu() {
  constexpr int EACH = 2, WARPS = 8;
  const size_t tokens = take<uint32_t>(1)[0];
  const auto both = take<T>(tokens * 2 * INNER);
  auto out = unwritten<T>(tokens * INNER);
  launch((INNER + EACH * WARPS * 32 - 1) / (EACH * WARPS * 32), int(tokens), 1, WARPS,
         [&](Ids ids) { swiglu<T, INNER, EACH, WARPS>(both.data(), out.data(), ids); });
  give(out);
}

// Header: tokens.
template <typename T, int N, int WARPS>
void run_add_norm() {
  const size_t tokens = take<uint32_t>(1)[0];
  const auto x = take<T>(tokens * N), y = take<T>(tokens * N), weight = take<T>(N);
  auto sum = unwritten<T>(tokens * N), out = unwritten<T>(tokens * N);
  launch(1, int(tokens), 1, WARPS,
         [&](Ids ids) { add_norm<T, N, WARPS, EPS>(x.data(), y.data(), weight.data(), sum.data(), out.data(), ids); });
  give(sum);
  give(out);
}

#include "main.inc"

// The kernels' bodies on the CPU: what the preludes for CUDA and Metal give, in plain C++, with lanes that are real.
//
// Every lane is a fiber. A lane that exchanges a value or reaches a barrier waits until all lanes of its warp, or all warps of its
// threadgroup, are there, and warps take turns in random order: a missing barrier, an exchange under a condition that lanes disagree on,
// or a barrier that not everybody reaches shows here as it would on a GPU.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <random>
#include <type_traits>
#include <vector>

[[noreturn]] inline void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(3);
}

struct cox_vec {
  uint32_t w[4];
};

// A lane's vectors of two rows of weights and of one row of x.
struct Share {
  cox_vec upper, lower, x;
};

// Bytes that a lane has asked for.
struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

struct Lane {
  enum At { READY, EXCHANGE, BARRIER, DONE } at = READY;
  ucontext_t context;
  std::vector<char> stack;
  float sent = 0, got = 0;
  int source = 0, what = 0;
  // What a lane gives to a product of its warp, and what it gave to the one under way.
  Share given, shared;
  // Groups of copies on their way, the last of them open.
  std::deque<std::vector<Copy>> copies;
};

// One threadgroup at a time, hence one of these.
struct Group {
  std::vector<Lane> lanes;
  ucontext_t scheduler;
  std::function<void(int)> body;
  int running = 0;
};
inline Group group;
inline std::mt19937 dice(1);

inline void wait(Lane::At at) {
  Lane& lane = group.lanes[group.running];
  lane.at = at;
  swapcontext(&lane.context, &group.scheduler);
}

inline void enter() {
  group.body(group.running);
  group.lanes[group.running].at = Lane::DONE;
  swapcontext(&group.lanes[group.running].context, &group.scheduler);
}

inline void advance(int warp) {
  Lane* lanes = &group.lanes[warp * 32];
  for (int i = 0; i < 32; i++) {
    group.running = warp * 32 + i;
    swapcontext(&group.scheduler, &lanes[i].context);
  }
  for (int i = 0; i < 32; i++) {
    if (lanes[i].at != lanes[0].at || lanes[i].what != lanes[0].what) fail("lanes of a warp went different ways");
    if (lanes[0].at == Lane::EXCHANGE) {
      lanes[i].got = lanes[lanes[i].source].sent;
      lanes[i].shared = lanes[i].given;
    }
  }
}

// Runs one threadgroup of `warps` warps.
inline void run_group(int warps, std::function<void(int)> body) {
  group.body = std::move(body);
  group.lanes.resize(warps * 32);
  for (Lane& lane : group.lanes) {
    lane.at = Lane::READY;
    lane.what = 0;
    lane.copies.assign(1, {});
    lane.stack.resize(128 * 1024);
    getcontext(&lane.context);
    lane.context.uc_stack.ss_sp = lane.stack.data();
    lane.context.uc_stack.ss_size = lane.stack.size();
    lane.context.uc_link = nullptr;
    makecontext(&lane.context, enter, 0);
  }
  for (;;) {
    std::vector<int> able;
    int done = 0;
    for (int w = 0; w < warps; w++) {
      const Lane::At at = group.lanes[w * 32].at;
      if (at == Lane::READY || at == Lane::EXCHANGE) able.push_back(w);
      if (at == Lane::DONE) done++;
    }
    if (!able.empty()) {
      advance(able[dice() % able.size()]);
    } else if (done == warps) {
      return;
    } else if (done > 0) {
      fail("a barrier that not every warp reaches");
    } else {
      for (Lane& lane : group.lanes) lane.at = Lane::READY;
    }
  }
}

// The types that MLX names.
struct bf16 {
  uint16_t bits;
};
typedef _Float16 f16;

inline float as_float(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}

inline float cox_bits(int bits) { return as_float(uint32_t(bits)); }

#define COX_SHARED static
#define COX_BARRIER() wait(Lane::BARRIER)
#define COX_WRITABLE(T, pool) const_cast<T*>(pool)
#define COX_UNROLL
#define COX_MAX(a, b) std::fmax(float(a), float(b))
#define COX_EXP2(x) std::exp2(float(x))
#define COX_SQRT(x) std::sqrt(float(x))

// Where vectors may be loaded from: what is loaded must lie in one of them, and on 16 bytes.
struct Span {
  const void* start;
  size_t bytes;
};
inline std::vector<Span> spans;

template <typename T>
cox_vec cox_load(const T* pool, unsigned int vector) {
  const char* at = reinterpret_cast<const char*>(pool) + size_t(vector) * 16;
  bool inside = false;
  for (const Span& span : spans) {
    const char* start = static_cast<const char*>(span.start);
    inside |= at >= start && at + 16 <= start + span.bytes && (at - start) % 16 == 0;
  }
  if (!inside) fail("a load outside what may be loaded, or not aligned");
  cox_vec v;
  std::memcpy(&v, at, 16);
  return v;
}

// `what` tells exchanges apart: all lanes of a warp must be at the same one.
inline float exchange(float x, int source, int what) {
  Lane& lane = group.lanes[group.running];
  lane.sent = x;
  lane.source = source;
  lane.what = what;
  wait(Lane::EXCHANGE);
  return lane.got;
}
inline float cox_xor(float x, int mask) { return exchange(x, group.running % 32 ^ mask, mask); }
inline float cox_from(float x, int lane) { return exchange(x, lane, 0); }

// Copies that arrive when a lane waits for their group, and not before.
#ifndef COX_BEHIND
#define COX_BEHIND 1
#endif
#define COX_FLOATS(RING) reinterpret_cast<float*>(RING)
#define COX_RING(COUNT) static cox_vec ring[COUNT];
#define COX_CLOSE() group.lanes[group.running].copies.emplace_back()
#define COX_ARRIVED(N) arrive(N)
#define COX_TOGETHER() exchange(0, 0, TOGETHER)
constexpr int TOGETHER = -2;

inline void later(void* to, const void* from, size_t bytes) {
  bool inside = false;
  for (const Span& span : spans) {
    const char* start = static_cast<const char*>(span.start);
    const char* at = static_cast<const char*>(from);
    inside |= at >= start && at + bytes <= start + span.bytes && (at - start) % bytes == 0;
  }
  if (!inside) fail("a copy from outside what may be loaded, or not aligned");
  auto& copies = group.lanes[group.running].copies;
  copies.back().push_back(Copy{to, from, bytes});
}
// All but the last groups that are closed; the open one is empty.
inline void arrive(size_t but) {
  auto& copies = group.lanes[group.running].copies;
  while (copies.size() > but + 1) {
    for (const Copy& copy : copies.front()) std::memcpy(copy.to, copy.from, copy.bytes);
    copies.pop_front();
  }
}

template <typename T>
void cox_later(cox_vec* ring, int to, const T* from, unsigned int at) {
  later(ring + to, reinterpret_cast<const char*>(from) + size_t(at) * 16, 16);
}
template <typename T>
void cox_stream_later(cox_vec* ring, int to, const T* from, unsigned int at) {
  cox_later(ring, to, from, at);
}
inline float cox_widen(float x) { return x; }
inline float cox_widen(f16 x) { return x; }
inline float cox_widen(bf16 x) { return as_float(uint32_t(x.bits) << 16); }

template <typename T>
T cox_narrow(float x) {
  return T(x);
}
template <>
inline bf16 cox_narrow<bf16>(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bf16{uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

template <typename T>
void cox_unpack(cox_vec v, float* to) {
  T each[16 / sizeof(T)];
  std::memcpy(each, &v, 16);
  for (size_t i = 0; i < 16 / sizeof(T); i++) to[i] = cox_widen(each[i]);
}

// Tells products from other exchanges.
constexpr int PRODUCT = -1;

// What tensor cores do: a lane ends with two columns of two rows, of what eight other lanes have.
template <typename T>
void cox_mma(float* acc, cox_vec upper, cox_vec lower, cox_vec x) {
  group.lanes[group.running].given = Share{upper, lower, x};
  exchange(0, 0, PRODUCT);
  const Lane* lanes = &group.lanes[group.running / 32 * 32];
  const int row = group.running % 32 / 4, column = group.running % 4 * 2;
  for (int from = 0; from < 4; from++) {
    const Share& weights = lanes[row * 4 + from].shared;
    float u[8], l[8];
    cox_unpack<T>(weights.upper, u);
    cox_unpack<T>(weights.lower, l);
    for (int c = 0; c < 2; c++) {
      float b[8];
      cox_unpack<T>(lanes[(column + c) * 4 + from].shared.x, b);
      for (int i = 0; i < 8; i++) {
        acc[c] += u[i] * b[i];
        acc[2 + c] += l[i] * b[i];
      }
    }
  }
}

template <int SIDE, typename T>
void cox_side_later(cox_vec* ring, int to, const T* from, int at) {
  later(reinterpret_cast<char*>(ring) + size_t(to) * SIDE * 2, from + size_t(at) * SIDE, SIDE * 2);
}
template <typename T>
float cox_side(const cox_vec* ring, int at) {
  T one;
  std::memcpy(&one, reinterpret_cast<const char*>(ring) + size_t(at) * sizeof(T), sizeof(T));
  return cox_widen(one);
}
template <int WORDS>
void cox_words(const cox_vec* ring, int at, uint32_t* to) {
  std::memcpy(to, reinterpret_cast<const char*>(ring) + size_t(at) * WORDS * 4, WORDS * 4);
}

// As on CUDA: numbers of 4 bits are unpacked in pairs that lie half a word apart, and have an offset in them.
constexpr int order(int bits, int i) { return bits == 4 ? i / 2 + i % 2 * 4 : i; }
template <typename T, int BITS>
float cox_offset() {
  return BITS == 8 ? 0 : std::is_same_v<T, bf16> ? 128 : 1024;
}

template <int BITS>
cox_vec cox_order(cox_vec x) {
  uint16_t from[8], to[8];
  std::memcpy(from, &x, 16);
  for (int i = 0; i < 8; i++) to[i] = from[order(BITS, i)];
  std::memcpy(&x, to, 16);
  return x;
}

template <typename T>
cox_vec packed(const float* values) {
  T each[8];
  for (int i = 0; i < 8; i++) each[i] = cox_narrow<T>(values[i]);
  cox_vec v;
  std::memcpy(&v, each, 16);
  return v;
}

template <typename T, int BITS>
cox_vec cox_whole(const uint32_t* words) {
  float each[8];
  for (int i = 0; i < 8; i++) {
    const int at = order(BITS, i) * BITS;
    each[i] = float(words[at / 32] >> (at % 32) & ((1u << BITS) - 1)) + cox_offset<T, BITS>();
  }
  return packed<T>(each);
}

template <typename T>
cox_vec cox_ones() {
  const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  return packed<T>(ones);
}

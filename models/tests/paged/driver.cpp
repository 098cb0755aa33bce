// Runs one case of the kernels on the CPU: reads a header and arrays from stdin, writes the output to stdout.
#include "host.h"
#include "launch.h"

#define COX_WHOLE 1
template <typename T, int D, int HEADS, int KV_HEADS, int PARTS, int LANES, int DEEP, int WARPS, int AHEAD>
void whole(const T* q, const int64_t* q_strides, const T* k_pool, const T* v_pool, const uint32_t* table, const uint32_t* lengths,
           const uint32_t* params, T* out, Ids ids) {
  IDS
#include "attend.inc"
}
#undef COX_WHOLE
#define COX_WHOLE 0
template <typename T, int D, int HEADS, int KV_HEADS, int PARTS, int LANES, int DEEP, int WARPS, int AHEAD>
void attend_part(const T* q, const int64_t* q_strides, const T* k_pool, const T* v_pool, const uint32_t* table,
                 const uint32_t* lengths, const uint32_t* params, float* part, float* stat, Ids ids) {
  IDS
#include "attend.inc"
}
template <typename T, int D, int HEADS, int WARPS>
void merge(const float* part, const float* stat, const uint32_t* lengths, const uint32_t* params, T* out, Ids ids) {
  IDS
#include "merge.inc"
}

template <typename T, int D, int KV_HEADS, int WARPS>
void store(const T* k, const int64_t* k_strides, const T* v, const int64_t* v_strides, const T* k_pool, const T* v_pool,
           const uint32_t* slots, uint32_t* done, Ids ids) {
  IDS
#include "store.inc"
}

// The header: rows, slots, width, chunk, window, splits, extra heads in a row of q. With no splits, the first heads of q are K and the
// next ones V, to be stored where `lengths` says, and both pools are given back.
template <typename T, int D, int HEADS, int KV_HEADS, int PARTS, int LANES, int DEEP, int WARPS, int AHEAD>
void run() {
  const auto head = take<uint32_t>(7);
  const int rows = head[0], splits = head[5];
  const size_t slots = head[1], width = head[2], line = HEADS + head[6];
  const auto q = take<T>(rows * line * D);
  auto k = take<T>(slots * KV_HEADS * D), v = take<T>(slots * KV_HEADS * D);
  const auto table = take<uint32_t>(rows * width), lengths = take<uint32_t>(rows);
  spans = {{k.data(), k.size() * sizeof(T)}, {v.data(), v.size() * sizeof(T)}};
  const int64_t strides[3] = {int64_t(line) * D, D, 1};
  const uint32_t params[4] = {head[3], head[4], head[5], head[2]};
  if (splits == 0) {
    constexpr int STORE = 8;
    uint32_t done = 7;
    launch((KV_HEADS * D + STORE * 32 - 1) / (STORE * 32), rows, 1, STORE, [&](Ids ids) {
      store<T, D, KV_HEADS, STORE>(q.data(), strides, q.data() + KV_HEADS * D, strides, k.data(), v.data(), lengths.data(), &done, ids);
    });
    if (done != 0) fail("storing must give a zero");
    give(k);
    give(v);
    return;
  }
  auto out = unwritten<T>(size_t(rows) * HEADS * D);
  if (splits == 1) {
    launch(1, KV_HEADS * PARTS, rows, WARPS, [&](Ids ids) {
      whole<T, D, HEADS, KV_HEADS, PARTS, LANES, DEEP, WARPS, AHEAD>(q.data(), strides, k.data(), v.data(), table.data(), lengths.data(), params,
                                                            out.data(), ids);
    });
  } else {
    std::vector<float> part(out.size() * splits, NAN), stat(size_t(rows) * HEADS * splits * 2, NAN);
    launch(splits, KV_HEADS * PARTS, rows, WARPS, [&](Ids ids) {
      attend_part<T, D, HEADS, KV_HEADS, PARTS, LANES, DEEP, WARPS, AHEAD>(q.data(), strides, k.data(), v.data(), table.data(), lengths.data(),
                                                                  params, part.data(), stat.data(), ids);
    });
    constexpr int MERGE = (D + 31) / 32;
    launch(HEADS, rows, 1, MERGE,
           [&](Ids ids) { merge<T, D, HEADS, MERGE>(part.data(), stat.data(), lengths.data(), params, out.data(), ids); });
  }
  give(out);
}

#include "main.inc"

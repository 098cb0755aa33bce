// Products of few rows: the other kernels do without, and MLX copies this text at every call.
template <int BITS>
inline cox_vec cox_order(cox_vec x) { return x; }

template <typename T>
inline float2 cox_pair(uint bits) {
  return float2(as_type<metal::vec<T, 2>>(bits));
}
template <>
inline float2 cox_pair<bfloat16_t>(uint bits) {
  return float2(as_type<float>(bits << 16), as_type<float>(bits & 0xffff0000u));
}

// 16 rows of weights times 8 rows of x over 32 columns, of which a lane has 8 of its row and of the row 8 below. A lane ends with two
// columns of both rows: it asks the lanes that have them for what it needs.
template <typename T>
inline void cox_mma(thread float* acc, cox_vec upper, cox_vec lower, cox_vec x) {
  const ushort lane = ushort(metal::simd_prefix_exclusive_sum(ushort(1)));
  const ushort row = lane / 4 * 4;
  const ushort column = lane % 4 * 8;
  for (ushort from = 0; from < 4; from++) {
    const cox_vec a = metal::simd_shuffle(upper, ushort(row + from));
    const cox_vec b = metal::simd_shuffle(lower, ushort(row + from));
    const cox_vec left = metal::simd_shuffle(x, ushort(column + from));
    const cox_vec right = metal::simd_shuffle(x, ushort(column + 4 + from));
    for (int i = 0; i < 4; i++) {
      const float2 u = cox_pair<T>(a[i]);
      const float2 v = cox_pair<T>(b[i]);
      const float2 l = cox_pair<T>(left[i]);
      const float2 r = cox_pair<T>(right[i]);
      acc[0] += u.x * l.x + u.y * l.y;
      acc[1] += u.x * r.x + u.y * r.y;
      acc[2] += v.x * l.x + v.y * l.y;
      acc[3] += v.x * r.x + v.y * r.y;
    }
  }
}

// What the kernels' bodies need of Metal. MLX has included metal_stdlib and defined bfloat16_t before this.
#define COX_SHARED threadgroup
#define COX_BARRIER() metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup)
#define COX_WRITABLE(T, pool) const_cast<device T*>(pool)
#define COX_UNROLL _Pragma("clang loop unroll(full)")
#define COX_MAX(a, b) metal::max(a, b)
#define COX_EXP2(x) metal::exp2(x)
#define COX_SQRT(x) metal::sqrt(x)

typedef uint4 cox_vec;

template <typename T>
inline cox_vec cox_load(const device T* pool, unsigned int at) {
  return reinterpret_cast<const device cox_vec*>(pool)[at];
}

inline float cox_xor(float x, int mask) { return metal::simd_shuffle_xor(x, ushort(mask)); }
inline float cox_from(float x, int lane) { return metal::simd_shuffle(x, ushort(lane)); }

template <typename T>
inline float cox_widen(T x) { return static_cast<float>(x); }

template <typename T>
inline T cox_narrow(float x) { return static_cast<T>(x); }

template <typename T>
inline void cox_unpack(cox_vec v, thread float* to);
template <>
inline void cox_unpack<float>(cox_vec v, thread float* to) {
  for (int i = 0; i < 4; i++) to[i] = as_type<float>(v[i]);
}
template <>
inline void cox_unpack<half>(cox_vec v, thread float* to) {
  for (int i = 0; i < 4; i++) {
    const half2 both = as_type<half2>(v[i]);
    to[2 * i] = float(both.x);
    to[2 * i + 1] = float(both.y);
  }
}
template <>
inline void cox_unpack<bfloat16_t>(cox_vec v, thread float* to) {
  for (int i = 0; i < 4; i++) {
    to[2 * i] = as_type<float>(v[i] << 16);
    to[2 * i + 1] = as_type<float>(v[i] & 0xffff0000u);
  }
}

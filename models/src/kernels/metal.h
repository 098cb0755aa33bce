// What the kernels' bodies need of Metal. MLX has included metal_stdlib and defined bfloat16_t before this.
#define COX_SHARED threadgroup
#define COX_BARRIER() metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup)
#define COX_WRITABLE(T, pool) const_cast<device T*>(pool)
#define COX_UNROLL _Pragma("clang loop unroll(full)")
#define COX_MAX(a, b) metal::max(a, b)
#define COX_EXP2(x) metal::exp2(x)
#define COX_SQRT(x) metal::sqrt(x)

inline float cox_xor(float x, int mask) { return metal::simd_shuffle_xor(x, ushort(mask)); }
inline float cox_from(float x, int lane) { return metal::simd_shuffle(x, ushort(lane)); }

template <typename T>
inline float cox_widen(T x) { return static_cast<float>(x); }

template <typename T>
inline T cox_narrow(float x) { return static_cast<T>(x); }

inline float cox_bits(int bits) { return as_type<float>(bits); }

// Weights out of their words, for products.

template <int WORDS>
__device__ __forceinline__ void cox_stream(const unsigned int* from, int at, unsigned int* to);
template <>
__device__ __forceinline__ void cox_stream<1>(const unsigned int* from, int at, unsigned int* to) {
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.u32 %0, [%1];" : "=r"(to[0]) : "l"(from + at));
}
template <>
__device__ __forceinline__ void cox_stream<2>(const unsigned int* from, int at, unsigned int* to) {
  asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v2.u32 {%0, %1}, [%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(from + size_t(at) * 2));
}
template <>
__device__ __forceinline__ void cox_stream<4>(const unsigned int* from, int at, unsigned int* to) {
  const cox_vec v = cox_stream(from, at);
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}

template <typename T>
__device__ __forceinline__ cox_vec cox_ones();
template <>
__device__ __forceinline__ cox_vec cox_ones<__nv_bfloat16>() { return make_uint4(0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u); }
template <>
__device__ __forceinline__ cox_vec cox_ones<__half>() { return make_uint4(0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u); }

// What eight numbers of 4 bits are or'ed into: 128 or 1024, where the lowest bit of the type's fraction counts one.
template <typename T>
constexpr unsigned int COX_UNDER = 0x43004300u;
template <>
constexpr unsigned int COX_UNDER<__half> = 0x64006400u;
template <typename T, int BITS>
__device__ __forceinline__ float cox_offset() { return BITS == 8 ? 0.0f : COX_UNDER<T> == 0x43004300u ? 128.0f : 1024.0f; }

__device__ __forceinline__ unsigned int cox_pack(float x, float y, __nv_bfloat16*) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(x, y);
  return reinterpret_cast<const unsigned int&>(both);
}
__device__ __forceinline__ unsigned int cox_pack(float x, float y, __half*) {
  const __half2 both = __floats2half2_rn(x, y);
  return reinterpret_cast<const unsigned int&>(both);
}
// A byte under 2^23, where the lowest bit counts one.
__device__ __forceinline__ float cox_byte(unsigned int word, int i) { return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440 + i)) - 8388608.0f; }

// Eight numbers as values of the type, with the offset.
template <typename T, int BITS>
__device__ __forceinline__ cox_vec cox_whole(const unsigned int* words) {
  cox_vec v;
  if (BITS == 4) {
    const unsigned int word = words[0];
    v.x = (word & 0x000f000fu) | COX_UNDER<T>;
    v.y = (word >> 4 & 0x000f000fu) | COX_UNDER<T>;
    v.z = (word >> 8 & 0x000f000fu) | COX_UNDER<T>;
    v.w = (word >> 12 & 0x000f000fu) | COX_UNDER<T>;
  } else {
    T* as = nullptr;
    v.x = cox_pack(cox_byte(words[0], 0), cox_byte(words[0], 1), as);
    v.y = cox_pack(cox_byte(words[0], 2), cox_byte(words[0], 3), as);
    v.z = cox_pack(cox_byte(words[1], 0), cox_byte(words[1], 1), as);
    v.w = cox_pack(cox_byte(words[1], 2), cox_byte(words[1], 3), as);
  }
  return v;
}

// x in the order in which numbers of so many bits are unpacked: those of 4 in pairs that lie half a word apart.
template <int BITS>
__device__ __forceinline__ cox_vec cox_order(cox_vec x) {
  if (BITS == 8) return x;
  return make_uint4(__byte_perm(x.x, x.z, 0x5410), __byte_perm(x.x, x.z, 0x7632), __byte_perm(x.y, x.w, 0x5410), __byte_perm(x.y, x.w, 0x7632));
}

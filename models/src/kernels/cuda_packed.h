// Weights out of their words, for products.

// A row's next SIDE scales or biases, counted in such.
template <int SIDE, typename T>
__device__ __forceinline__ void cox_side_later(cox_vec* ring, int to, const T* from, int at) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(ring) + to * SIDE * 2;
  asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;" ::"r"(place), "l"(from + size_t(at) * SIDE), "n"(SIDE * 2) : "memory");
}
template <typename T>
__device__ __forceinline__ float cox_side(const cox_vec* ring, int at) { return cox_widen(reinterpret_cast<const T*>(ring)[at]); }

template <int WORDS>
__device__ __forceinline__ void cox_words(const cox_vec* ring, int at, unsigned int* to) {
  const unsigned int* const from = reinterpret_cast<const unsigned int*>(ring) + at * WORDS;
  if (WORDS == 4) {
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    to[0] = v.x;
    to[1] = v.y;
    to[WORDS - 2] = v.z;
    to[WORDS - 1] = v.w;
  } else if (WORDS == 2) {
    const uint2 v = *reinterpret_cast<const uint2*>(from);
    to[0] = v.x;
    to[WORDS - 1] = v.y;
  } else {
    to[0] = from[0];
  }
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

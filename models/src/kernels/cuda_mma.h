// Products on tensor cores, for few rows: the other kernels do without, and MLX copies this text at every call.
template <int BITS>
__device__ __forceinline__ cox_vec cox_order(cox_vec x) {
  if (BITS != 4) return x;
  // In pairs that lie half a word apart, as numbers of 4 bits are unpacked.
  return make_uint4(__byte_perm(x.x, x.z, 0x5410), __byte_perm(x.x, x.z, 0x7632), __byte_perm(x.y, x.w, 0x5410), __byte_perm(x.y, x.w, 0x7632));
}

// 16 rows of weights times 8 rows of x over 32 columns, of which a lane has 8 of its row and of the row 8 below: two instructions.
#define COX_MMA(TYPE, A, B, C, D, X, Y)                                                                          \
  asm("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])                                                   \
      : "r"(A), "r"(B), "r"(C), "r"(D), "r"(X), "r"(Y));
template <typename T>
__device__ __forceinline__ void cox_mma(float* acc, cox_vec upper, cox_vec lower, cox_vec x);
template <>
__device__ __forceinline__ void cox_mma<__nv_bfloat16>(float* acc, cox_vec upper, cox_vec lower, cox_vec x) {
  COX_MMA("bf16", upper.x, lower.x, upper.y, lower.y, x.x, x.y)
  COX_MMA("bf16", upper.z, lower.z, upper.w, lower.w, x.z, x.w)
}
template <>
__device__ __forceinline__ void cox_mma<__half>(float* acc, cox_vec upper, cox_vec lower, cox_vec x) {
  COX_MMA("f16", upper.x, lower.x, upper.y, lower.y, x.x, x.y)
  COX_MMA("f16", upper.z, lower.z, upper.w, lower.w, x.z, x.w)
}

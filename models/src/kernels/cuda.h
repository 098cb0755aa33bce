// What the kernels' bodies need of CUDA C++, as nvrtc compiles it. MLX puts the bodies into its own namespace, hence the prefix.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define COX_SHARED __shared__
#define COX_BARRIER() __syncthreads()
#define COX_WRITABLE(T, pool) const_cast<T*>(pool)
#define COX_UNROLL _Pragma("unroll")
#define COX_MAX(a, b) fmaxf(a, b)
#define COX_EXP2(x) cox_exp2(x)
#define COX_SQRT(x) sqrtf(x)

// exp2f spends three more instructions on results below 2^-126, which are nothing beside a weight of 1.
__device__ __forceinline__ float cox_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float cox_xor(float x, int mask) { return __shfl_xor_sync(0xffffffffu, x, mask); }
__device__ __forceinline__ float cox_from(float x, int lane) { return __shfl_sync(0xffffffffu, x, lane); }

__device__ __forceinline__ float cox_widen(float x) { return x; }
__device__ __forceinline__ float cox_widen(__half x) { return __half2float(x); }
__device__ __forceinline__ float cox_widen(__nv_bfloat16 x) { return __bfloat162float(x); }

template <typename T>
__device__ __forceinline__ T cox_narrow(float x);
template <>
__device__ __forceinline__ float cox_narrow<float>(float x) { return x; }
template <>
__device__ __forceinline__ __half cox_narrow<__half>(float x) { return __float2half(x); }
template <>
__device__ __forceinline__ __nv_bfloat16 cox_narrow<__nv_bfloat16>(float x) { return __float2bfloat16(x); }

__device__ __forceinline__ float cox_bits(int bits) { return __int_as_float(bits); }

// Vectors of 16 bytes, for attention and products: the other kernels do without, and MLX copies this text at every call.
typedef uint4 cox_vec;

// Shared memory whose size is given with the launch, and copies into it that run while a lane goes on.
#define COX_BEHIND 1
#define COX_RING(COUNT) extern __shared__ uint4 ring[];
#define COX_CLOSE() asm volatile("cp.async.commit_group;" ::: "memory")
#define COX_ARRIVED(N) asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory")
#define COX_TOGETHER() __syncwarp()

// The same memory as other numbers.
#define COX_FLOATS(RING) reinterpret_cast<float*>(RING)

// Past the first cache: a threadgroup's copies on their way would fill it.
template <typename T>
__device__ __forceinline__ void cox_later(cox_vec* ring, int to, const T* from, unsigned int at) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(ring + to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(place), "l"(reinterpret_cast<const cox_vec*>(from) + at) : "memory");
}

// What lies behind it is asked for next.
template <typename T>
__device__ __forceinline__ void cox_stream_later(cox_vec* ring, int to, const T* from, unsigned int at) {
  const unsigned int place = (unsigned int)__cvta_generic_to_shared(ring + to);
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(place), "l"(reinterpret_cast<const cox_vec*>(from) + at) : "memory");
}

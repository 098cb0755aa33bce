// Vectors of 16 bytes, for attention and products: the other kernels do without, and MLX copies this text at every call.
typedef uint4 cox_vec;

// Copies into shared memory that are made at once.
#define COX_BEHIND 0
#define COX_RING(COUNT) threadgroup cox_vec ring[COUNT];
#define COX_CLOSE()
#define COX_ARRIVED(N)
#define COX_TOGETHER() metal::simdgroup_barrier(metal::mem_flags::mem_threadgroup)

template <typename T>
inline void cox_later(threadgroup cox_vec* ring, int to, const device T* from, uint at) {
  ring[to] = reinterpret_cast<const device cox_vec*>(from)[at];
}
template <typename T>
inline void cox_stream_later(threadgroup cox_vec* ring, int to, const device T* from, uint at) {
  cox_later(ring, to, from, at);
}

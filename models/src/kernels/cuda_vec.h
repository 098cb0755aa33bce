// What attention needs beside them.
template <typename T>
__device__ __forceinline__ void cox_unpack(cox_vec v, float* to);
template <>
__device__ __forceinline__ void cox_unpack<float>(cox_vec v, float* to) {
  to[0] = __uint_as_float(v.x);
  to[1] = __uint_as_float(v.y);
  to[2] = __uint_as_float(v.z);
  to[3] = __uint_as_float(v.w);
}
__device__ __forceinline__ void cox_halves(unsigned int bits, float* to) {
  __half2_raw raw;
  raw.x = (unsigned short)(bits & 0xffffu);
  raw.y = (unsigned short)(bits >> 16);
  const float2 both = __half22float2(__half2(raw));
  to[0] = both.x;
  to[1] = both.y;
}
template <>
__device__ __forceinline__ void cox_unpack<__half>(cox_vec v, float* to) {
  cox_halves(v.x, to);
  cox_halves(v.y, to + 2);
  cox_halves(v.z, to + 4);
  cox_halves(v.w, to + 6);
}
__device__ __forceinline__ void cox_brains(unsigned int bits, float* to) {
  to[0] = __uint_as_float(bits << 16);
  to[1] = __uint_as_float(bits & 0xffff0000u);
}
template <>
__device__ __forceinline__ void cox_unpack<__nv_bfloat16>(cox_vec v, float* to) {
  cox_brains(v.x, to);
  cox_brains(v.y, to + 2);
  cox_brains(v.z, to + 4);
  cox_brains(v.w, to + 6);
}

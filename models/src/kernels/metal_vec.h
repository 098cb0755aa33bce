// Loads of 16 bytes and what becomes of them, for attention.
template <typename T>
inline cox_vec cox_load(const device T* pool, unsigned int at) {
  return reinterpret_cast<const device cox_vec*>(pool)[at];
}

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

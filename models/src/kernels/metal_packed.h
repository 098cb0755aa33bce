// Weights out of their words, for products.

// A row's next SIDE scales or biases, counted in such.
template <int SIDE, typename T>
inline void cox_side_later(threadgroup cox_vec* ring, int to, const device T* from, int at) {
  for (int i = 0; i < SIDE; i++) reinterpret_cast<threadgroup T*>(ring)[to * SIDE + i] = from[size_t(at) * SIDE + i];
}
template <typename T>
inline float cox_side(const threadgroup cox_vec* ring, int at) { return float(reinterpret_cast<const threadgroup T*>(ring)[at]); }

template <int WORDS>
inline void cox_words(const threadgroup cox_vec* ring, int at, thread uint* to) {
  for (int i = 0; i < WORDS; i++) to[i] = reinterpret_cast<const threadgroup uint*>(ring)[at * WORDS + i];
}

template <typename T>
inline uint cox_pack(float x, float y) {
  return as_type<uint>(metal::vec<T, 2>(T(x), T(y)));
}
template <>
inline uint cox_pack<bfloat16_t>(float x, float y) {
  return uint(as_type<ushort>(bfloat16_t(x))) | uint(as_type<ushort>(bfloat16_t(y))) << 16;
}

template <typename T>
inline cox_vec cox_ones() {
  return cox_vec(cox_pack<T>(1.0f, 1.0f));
}

// Eight numbers as values of the type, as they are: without an offset, and in their order.
template <typename T, int BITS>
inline cox_vec cox_whole(const thread uint* words) {
  const uint mask = (1u << BITS) - 1u;
  cox_vec v;
  for (int i = 0; i < 4; i++) {
    const int at = i * 2 * BITS;
    const uint pair = words[at / 32] >> (at % 32);
    v[i] = cox_pack<T>(float(pair & mask), float((pair >> BITS) & mask));
  }
  return v;
}
template <typename T, int BITS>
inline float cox_offset() { return 0.0f; }

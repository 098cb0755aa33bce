// The two histograms that the page wants from /metrics, and what can be said of an interval between two looks.

const WANTED = { "vllm:time_to_first_token_seconds": "ttft", "vllm:inter_token_latency_seconds": "itl" };

/** { ttft: { sum, count, buckets: [[bound, cumulative]…] }, itl: … }; seconds. */
export function parse(text) {
  const found = { ttft: { sum: 0, count: 0, buckets: [] }, itl: { sum: 0, count: 0, buckets: [] } };
  for (const line of text.split("\n")) {
    if (!line.startsWith("vllm:time_to_first") && !line.startsWith("vllm:inter_token")) continue;
    const match = /^([\w:]+)_(sum|count|bucket)(?:\{(.*)\})?\s+(\S+)/.exec(line);
    const histogram = match && found[WANTED[match[1]]];
    if (!histogram) continue;
    const value = Number(match[4]);
    if (match[2] !== "bucket") histogram[match[2]] += value;
    else histogram.buckets.push([Number(/le="([^"]+)"/.exec(match[3])[1].replace("+Inf", "Infinity")), value]);
  }
  return found;
}

/** What came between two looks: { count, mean, quantile(q) }, or null if nothing did or the server is another one. */
export function between(old, now) {
  const events = now.count - old.count;
  if (events <= 0 || now.buckets.length !== old.buckets.length) return null;
  const buckets = now.buckets.map(([bound, n], i) => [bound, n - old.buckets[i][1]]);
  const quantile = (q) => {
    const rank = q * events;
    let [from, below] = [0, 0];
    for (const [bound, n] of buckets) {
      if (n >= rank) return bound === Infinity ? from : from + ((bound - from) * (rank - below)) / Math.max(1e-9, n - below);
      [from, below] = [bound, n];
    }
    return from;
  };
  return { count: events, mean: (now.sum - old.sum) / events, quantile };
}

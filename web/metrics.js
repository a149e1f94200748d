// Figures out of /metrics, which is in Prometheus' text format.

const LINE = /^(?:linnet|vllm):(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

// {name: [{labels, value}, ...]}
export function parseMetrics(text) {
  const metrics = Object.create(null);
  for (const line of text.split('\n')) {
    const found = LINE.exec(line);
    if (found === null) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || '').matchAll(LABEL)) labels[name] = value.replace(/\\(.)/g, '$1');
    (metrics[found[1]] ||= []).push({labels, value: Number(found[3])});
  }
  return metrics;
}

export function sum(metrics, name, label, wanted) {
  return (metrics[name] || []).filter((one) => label === undefined || one.labels[label] === wanted)
      .reduce((total, one) => total + one.value, 0);
}

// Counts of a histogram's buckets, summed over models: [[bound, count up to it], ...].
export function buckets(metrics, name) {
  const counts = new Map();
  for (const {labels, value} of metrics[`${name}_bucket`] || []) {
    const bound = labels.le === '+Inf' ? Infinity : Number(labels.le);
    counts.set(bound, (counts.get(bound) || 0) + value);
  }
  return [...counts].sort((a, b) => a[0] - b[0]);
}

// The quantile of what came between two looks at a histogram; null where nothing came.
export function quantile(before, after, share) {
  const counts = after.map(([bound, count], i) => [bound, count - (before[i]?.[1] || 0)]);
  const total = counts.length > 0 ? counts[counts.length - 1][1] : 0;
  if (total <= 0) return null;
  const wanted = share * total;
  let lower = 0, below = 0;
  for (const [bound, count] of counts) {
    if (count >= wanted) {
      if (bound === Infinity) return lower;
      return count === below ? bound : lower + (bound - lower) * (wanted - below) / (count - below);
    }
    lower = bound;
    below = count;
  }
  return lower;
}

// What the charts and tables show of one look.
export function takeSample(metrics, time) {
  return {
    time,
    output: sum(metrics, 'generation_tokens_total'),
    prompt: sum(metrics, 'prompt_tokens_total'),
    running: sum(metrics, 'num_requests_running'),
    waiting: sum(metrics, 'num_requests_waiting'),
    swapped: sum(metrics, 'num_requests_swapped'),
    cache: Math.max(0, ...(metrics.kv_cache_usage_perc || []).map((one) => one.value)),
    queries: sum(metrics, 'prefix_cache_queries_total'),
    hits: sum(metrics, 'prefix_cache_hits_total'),
    requests: sum(metrics, 'e2e_request_latency_seconds_count'),
    steps: sum(metrics, 'engine_steps_total'),
    first: buckets(metrics, 'time_to_first_token_seconds'),
    token: buckets(metrics, 'time_per_output_token_seconds'),
  };
}

//! Upper bounds of every histogram. Those of the `vllm:` series are vLLM's own, so that quantiles of both can share a dashboard.

/// Time to the first token, seconds.
pub(crate) const FIRST_TOKEN: &[f64] =
    &[0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0];

/// Time of one output token, seconds.
pub(crate) const TOKEN: &[f64] = &[0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0];

/// Time of a whole request or of one of its parts, seconds.
pub(crate) const REQUEST: &[f64] =
    &[0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0];

/// Answers asked for at once.
pub(crate) const PARAMS_N: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0];

/// Tokens of one step.
pub(crate) const STEP_TOKENS: &[f64] = &[1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0];

/// Rows of one step.
pub(crate) const BATCH_ROWS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0, 96.0, 128.0, 256.0];

/// Time of one part of a step, seconds: planning takes microseconds, a forward pass up to seconds.
pub(crate) const STEP_SECONDS: &[f64] =
    &[0.000_01, 0.000_1, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// 1, 2, 5, 10, 20, 50, … up to `tokens_max`, the largest not above it.
pub(crate) fn one_two_five(tokens_max: u32) -> Vec<f64> {
    // A registry refuses a histogram without a bucket, and the smallest bound is 1.
    let tokens_max = u64::from(tokens_max.max(1));
    let mut bounds = Vec::new();
    let mut decade = 1u64;
    loop {
        for mantissa in [1, 2, 5] {
            let bound = mantissa * decade;
            if bound > tokens_max {
                return bounds;
            }
            bounds.push(bound as f64);
        }
        decade *= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_two_five_ends_at_the_context() {
        for (tokens_max, expect) in [
            (0, vec![1.0]),
            (1, vec![1.0]),
            (9, vec![1.0, 2.0, 5.0]),
            (10, vec![1.0, 2.0, 5.0, 10.0]),
            (2048, vec![1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0]),
        ] {
            assert_eq!(one_two_five(tokens_max), expect, "tokens_max {tokens_max}");
        }
        assert_eq!(one_two_five(u32::MAX).last(), Some(&2e9));
    }

    #[test]
    fn bounds_rise() {
        for bounds in [FIRST_TOKEN, TOKEN, REQUEST, PARAMS_N, STEP_TOKENS, BATCH_ROWS, STEP_SECONDS] {
            assert!(bounds.is_sorted_by(|a, b| a < b), "{bounds:?}");
        }
    }
}

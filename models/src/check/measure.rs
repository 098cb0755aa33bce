//! How far logits may be from the recording, and when two greedy ids that differ are a fault (parity tier L1).

use super::golden::Prompt;
use super::run::Outcome;
use mlx_rs::Dtype;

/// What a model's type allows. In f32 two ways of adding up differ by little beside the logits themselves. In 16 bits they do not: a logit of
/// 25 is a multiple of an eighth, and mlx-lm itself is not the same when it reads a prompt whole and token by token. So the question there is whether we are as near as it is to what the same weights give in f32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Largest |error| of a logit over the spread of the recorded ones.
    Spread,
    /// Kullback-Leibler divergence from what the weights give in f32, over the oracle's: the mean of a prompt's positions, or the worst of
    /// them, whichever is more.
    Divergence,
}

impl Measure {
    pub fn of(dtype: Dtype) -> Measure {
        if dtype == Dtype::Float32 { Measure::Spread } else { Measure::Divergence }
    }

    /// Of two draws of the same rounding errors, the worst of a prompt's positions may be twice the other's.
    pub fn tolerance(self) -> f32 {
        match self {
            Measure::Spread => 1e-4,
            Measure::Divergence => 2.0,
        }
    }

    /// The worst position; NaN if any logit is. `logits` are `[positions, vocab]`.
    pub fn error(self, prompt: &Prompt, logits: &[f32]) -> f32 {
        assert_eq!(logits.len(), prompt.logits.len(), "logits at every position");
        match self {
            Measure::Spread => worst(logits.iter().zip(&prompt.logits).map(|(a, b)| (a - b).abs())) / prompt.spread(),
            Measure::Divergence => {
                let (ours, theirs) = (divergences(prompt, logits), divergences(prompt, &prompt.logits));
                let mean = |all: &[f32]| all.iter().sum::<f32>() / all.len() as f32;
                let worst = |all: &[f32]| worst(all.iter().copied());
                worst(&[mean(&ours) / mean(&theirs), worst(&ours) / worst(&theirs)])
            }
        }
    }

    /// How many greedy ids agree. A disagreement counts only when our two best were further apart than rounding may bring them; a closer
    /// one ends the comparison.
    pub fn greedy_equal(self, prompt: &Prompt, out: &Outcome) -> Result<usize, String> {
        for (n, (want, got)) in prompt.greedy.iter().zip(&out.greedy).enumerate() {
            if want == got {
                continue;
            }
            let (apart, unit) = match self {
                Measure::Spread => (out.gaps[n] / prompt.spread(), "of the spread"),
                Measure::Divergence => (out.sure[n] * (1.0 - (-out.gaps[n]).exp()), "in probability"),
            };
            return if apart <= self.closest(prompt) { Ok(n) } else { Err(format!("greedy id {n} is {got}, recorded {want} ({apart:.1e} {unit} apart)")) };
        }
        Ok(prompt.greedy.len())
    }

    /// Two candidates may change places when they are no further apart than this: each may be off by so much, in opposite directions. With a
    /// divergence no probability is off by more than the root of half of it (Pinsker's inequality); the oracle's own worst one counts.
    fn closest(self, prompt: &Prompt) -> f32 {
        match self {
            Measure::Spread => 2.0 * self.tolerance(),
            Measure::Divergence => 2.0 * (worst(divergences(prompt, &prompt.logits).into_iter()) / 2.0).sqrt(),
        }
    }
}

fn worst(errors: impl Iterator<Item = f32>) -> f32 {
    errors.fold(0f32, |m, e| if e.is_nan() || m.is_nan() { f32::NAN } else { m.max(e) })
}

/// Of each position, from what is exact. None is nothing: the recording itself then is.
fn divergences(prompt: &Prompt, logits: &[f32]) -> Vec<f32> {
    let exact = prompt.exact.as_ref().unwrap_or(&prompt.logits);
    exact.chunks(prompt.vocab).zip(logits.chunks(prompt.vocab)).map(|(p, q)| divergence(p, q)).collect()
}

/// Of softmax(q) from softmax(p).
fn divergence(p: &[f32], q: &[f32]) -> f32 {
    let log_sum = |z: &[f32]| {
        let most = z.iter().fold(f64::NEG_INFINITY, |m, x| m.max(f64::from(*x)));
        most + z.iter().map(|x| (f64::from(*x) - most).exp()).sum::<f64>().ln()
    };
    let (of_p, of_q) = (log_sum(p), log_sum(q));
    let terms = p.iter().zip(q).map(|(p, q)| {
        let (p, q) = (f64::from(*p) - of_p, f64::from(*q) - of_q);
        p.exp() * (p - q)
    });
    // Rounding may leave it just below zero.
    let sum: f64 = terms.sum();
    if sum.is_nan() { f32::NAN } else { sum.max(0.0) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(logits: &[f32], exact: Option<&[f32]>, greedy: &[u32]) -> Prompt {
        Prompt { ids: vec![0; logits.len() / 2], logits: logits.to_vec(), vocab: 2, greedy: greedy.to_vec(), exact: exact.map(<[f32]>::to_vec) }
    }

    #[test]
    fn a_divergence_is_what_the_definition_says() {
        // One half and one half from one fourth and three fourths: half of ln 2, less half of ln 1.5. A constant on all logits is nothing.
        let apart = divergence(&[0.5f32.ln(), 0.5f32.ln()], &[0.25f32.ln() + 7.0, 0.75f32.ln() + 7.0]);
        assert!((apart - (0.5 * 2f32.ln() - 0.5 * 1.5f32.ln())).abs() < 1e-6, "{apart}");
        assert_eq!(divergence(&[3.0, 1.0], &[3.0, 1.0]), 0.0);
    }

    #[test]
    fn what_is_as_far_from_exact_as_the_oracle_is_held_to_be_as_good() {
        let (exact, theirs) = ([0.0, 1.0, 0.0, 1.0], [0.0, 1.1, 0.0, 1.0]);
        let golden = prompt(&theirs, Some(&exact), &[]);
        let error = |logits: &[f32]| Measure::Divergence.error(&golden, logits);
        assert_eq!((error(&theirs), error(&exact)), (1.0, 0.0));
        let other = error(&[0.0, 1.0, 0.0, 0.9]);
        assert!((0.9..1.1).contains(&other), "as far, to the other side and elsewhere: {other}");
        assert!(error(&[0.0, 1.2, 0.0, 1.0]) > 2.0, "twice the logit's error is four times the divergence");
        assert!(error(&[0.0, 1.13, 0.0, 1.13]) > 2.0, "each within bounds, but not their mean");
        for measure in [Measure::Spread, Measure::Divergence] {
            assert!(measure.error(&golden, &[f32::NAN, 1.0, 0.0, 1.0]).is_nan());
        }
    }

    #[test]
    fn ids_may_differ_only_where_two_are_close() {
        let exact = [0.0, 1.0, 0.0, 1.0];
        let golden = prompt(&[0.0, 1.1, 0.0, 1.0], Some(&exact), &[1, 1]);
        // The oracle's worst divergence is 0.00096 here, so that two probabilities may be 0.044 apart.
        let out = |gap, sure| Outcome { logits: Vec::new(), greedy: vec![1, 0], gaps: vec![9.0, gap], sure: vec![1.0, sure] };
        for (measure, gap, sure, held) in [
            (Measure::Spread, 2.1e-4, 0.5, true),
            (Measure::Spread, 2.3e-4, 0.5, false),
            (Measure::Divergence, 0.08, 0.5, true),
            (Measure::Divergence, 0.1, 0.53, false),
            (Measure::Divergence, 0.5, 0.1, true),
        ] {
            let equal = measure.greedy_equal(&golden, &out(gap, sure));
            assert_eq!(equal.is_ok(), held, "{measure:?} {gap} {sure}: {equal:?}");
        }
        assert_eq!(Measure::Spread.greedy_equal(&golden, &Outcome { greedy: vec![1, 1], ..out(0.0, 1.0) }), Ok(2));
    }
}

//! How far logits may be from the recording, and when two greedy ids that differ are a fault (parity tier L1).

use super::golden::Prompt;
use super::run::Outcome;
use mlx_rs::Dtype;

/// What a model's type allows. In f32 two ways of adding up differ by little beside the logits themselves. In 16 bits a logit of 25 is a
/// multiple of an eighth, so that logits say little, and what they come to is compared instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Largest |error| of a logit over the spread of the recorded ones.
    Spread,
    /// Kullback-Leibler divergence of what the logits make of a position from what the recorded ones make of it, in nats.
    Divergence,
}

impl Measure {
    pub fn of(dtype: Dtype) -> Measure {
        if dtype == Dtype::Float32 { Measure::Spread } else { Measure::Divergence }
    }

    pub fn tolerance(self) -> f32 {
        match self {
            Measure::Spread => 1e-4,
            Measure::Divergence => 1e-3,
        }
    }

    /// The worst position; NaN if any logit is. `logits` are `[positions, vocab]`.
    pub fn error(self, prompt: &Prompt, logits: &[f32]) -> f32 {
        assert_eq!(logits.len(), prompt.logits.len(), "logits at every position");
        let worst = |errors: &mut dyn Iterator<Item = f32>| errors.fold(0f32, |m, e| if e.is_nan() || m.is_nan() { f32::NAN } else { m.max(e) });
        match self {
            Measure::Spread => worst(&mut logits.iter().zip(&prompt.logits).map(|(a, b)| (a - b).abs())) / prompt.spread(),
            Measure::Divergence => worst(&mut prompt.logits.chunks(prompt.vocab).zip(logits.chunks(prompt.vocab)).map(|(p, q)| divergence(p, q))),
        }
    }

    /// How many greedy ids agree. A disagreement counts only when our two best were further apart than the tolerance may bring them; a
    /// closer one ends the comparison.
    pub fn greedy_equal(self, prompt: &Prompt, out: &Outcome) -> Result<usize, String> {
        for (n, (want, got)) in prompt.greedy.iter().zip(&out.greedy).enumerate() {
            if want == got {
                continue;
            }
            let (apart, unit) = match self {
                Measure::Spread => (out.gaps[n] / prompt.spread(), "of the spread"),
                Measure::Divergence => (out.sure[n] * (1.0 - (-out.gaps[n]).exp()), "in probability"),
            };
            return if apart <= self.closest() { Ok(n) } else { Err(format!("greedy id {n} is {got}, recorded {want} ({apart:.1e} {unit} apart)")) };
        }
        Ok(prompt.greedy.len())
    }

    /// Two candidates may change places when they are no further apart than this: each may be off by the tolerance, in opposite
    /// directions. For a divergence that is what no probability can be off by more than (Pinsker's inequality): the root of half of it.
    fn closest(self) -> f32 {
        match self {
            Measure::Spread => 2.0 * self.tolerance(),
            Measure::Divergence => 2.0 * (self.tolerance() / 2.0).sqrt(),
        }
    }
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

    fn prompt(logits: &[f32], vocab: usize, greedy: &[u32]) -> Prompt {
        Prompt { ids: vec![0; logits.len() / vocab], logits: logits.to_vec(), vocab, greedy: greedy.to_vec() }
    }

    #[test]
    fn a_divergence_is_what_the_definition_says() {
        // One half and one half from one fourth and three fourths: half of ln 2, less half of ln 1.5; and the worse of two positions.
        let ln = |x: f32| x.ln();
        let recorded = [ln(0.5), ln(0.5), ln(0.5), ln(0.5)];
        let ours = [ln(0.5) + 7.0, ln(0.5) + 7.0, ln(0.25), ln(0.75)];
        let error = Measure::Divergence.error(&prompt(&recorded, 2, &[]), &ours);
        assert!((error - (0.5 * 2f32.ln() - 0.5 * 1.5f32.ln())).abs() < 1e-6, "{error}");
        assert_eq!(Measure::Divergence.error(&prompt(&recorded, 2, &[]), &recorded), 0.0);
        for measure in [Measure::Spread, Measure::Divergence] {
            assert!(measure.error(&prompt(&[0.0, 1.0], 2, &[]), &[f32::NAN, 1.0]).is_nan());
        }
    }

    #[test]
    fn ids_may_differ_only_where_two_are_close() {
        let golden = prompt(&[0.0, 1.0], 2, &[1, 1]);
        let out = |gap, sure| Outcome { logits: Vec::new(), greedy: vec![1, 0], gaps: vec![9.0, gap], sure: vec![1.0, sure] };
        for (measure, gap, sure, held) in [
            (Measure::Spread, 1.9e-4, 0.5, true),
            (Measure::Spread, 2.1e-4, 0.5, false),
            // 0.0447 of probability: of two that have all of it, a gap of 0.0894 in logits.
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
